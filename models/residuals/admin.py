"""Admin of Liu et al. 2020."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, nn

from models.dropout import Dropout
from models.registry import RESIDUALS
from models.seams import Residual
from models.site import Site


class Profile(nn.Module):
    """What the sub-layers of a stack hand on to the next one while a batch is profiled; `omega` is None at other times."""

    def __init__(self) -> None:
        super().__init__()
        self.omega: float | None = None
        self.variance = 0.0  # of the outputs so far


@RESIDUALS.register("admin")
class Admin(Residual):
    """LN(omega_i * x + y), omega_i [D] learned, its first value from the data (Liu et al. 2020, "Understanding the difficulty of training
    Transformers", section 4).

    One batch in training mode (`profile`) measures it: omega_1 = 1 in the first sub-layer of the stack. Var is over all numbers of the
    batch.

    Args:
        variance: code: omega_{i+1}^2 = Var(omega_i x_i) + Var(y_i) in the i-th sub-layer, as in the authors' code; text: omega_{i+1}^2 =
            sum_{j<=i} Var(y_j), as the paper has it.
        rate: factor of the learning rate of this component's own parameters.
    """

    norms = ("post",)
    starts_as_identity = True  # omega is measured from what the sub-layers give, which must not be zero

    def __init__(self, site: Site, *, variance: Literal["code", "text"] = "code", rate: float = 1.0) -> None:
        super().__init__(site)
        self.rate = rate
        self.omega = nn.Parameter(torch.zeros(site.d_model))
        self.profile = site.shared.setdefault(f"admin.{site.side}", Profile())
        self.text = variance == "text"

    def initialise(self, name: str, generator: torch.Generator) -> Tensor:
        return torch.ones(self.omega.shape)

    def write(self, s: Tensor, y: Tensor, x: Tensor, drop: Dropout) -> Tensor:
        if self.profile.omega is not None:
            return self._measured(s, drop(y))
        return drop.add(self.omega * s, y)

    @torch.no_grad()
    def _measured(self, s: Tensor, y: Tensor) -> Tensor:
        """omega from the sub-layers below, and the next one's."""
        profile = self.profile
        assert isinstance(profile, Profile) and profile.omega is not None
        self.omega.fill_(profile.omega)
        s = self.omega * s
        own = float(y.float().var(unbiased=False))
        profile.variance += own
        profile.omega = (profile.variance if self.text else float(s.float().var(unbiased=False)) + own) ** 0.5
        return s + y

    def weights(self, s: Any = None) -> dict[str, Tensor]:
        """The mean of omega."""
        return {"omega": self.omega.mean()[None]}


def profiles(model: nn.Module) -> list[Profile]:
    """Of the model's stacks; none where no residual takes values from data."""
    return [module for module in model.modules() if isinstance(module, Profile)]


@torch.no_grad()
def profile(model: nn.Module, src_BS: Tensor, tgt_in_BT: Tensor) -> None:
    """Sets every omega from one batch, in fp32 and training mode."""
    found = profiles(model)
    for each in found:
        each.omega, each.variance = 1.0, 0.0
    model.train()
    try:
        model(src_BS, tgt_in_BT)
    finally:
        for each in found:
            each.omega = None
