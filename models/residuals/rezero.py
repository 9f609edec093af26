"""ReZero of Bachlechner et al. 2020."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, nn

from models.dropout import Dropout
from models.registry import RESIDUALS
from models.seams import Residual
from models.site import Site


class Scale(nn.Module):
    """A learned factor, 0 at the start."""

    def __init__(self) -> None:
        super().__init__()
        self.alpha = nn.Parameter(torch.zeros(1))

    def initialise(self, name: str, generator: torch.Generator) -> Tensor:
        return torch.zeros(1)


@RESIDUALS.register("rezero")
class ReZero(Residual):
    """x + a y, a = 0 at the start, without any norm, the stack's last one included (Bachlechner et al. 2020, Eq. 1).

    Args:
        per: sublayer: each sub-layer has its own a; layer: those of a layer share one (the authors' package).
        norms: none: there is no norm; keep: the norms stay where the model has them (the Transformer-Clinic's "ReZero + Post-LN").
        rate: factor of the learning rate of this component's own parameters.
    """

    starts_as_identity = True

    def __init__(
        self, site: Site, *, per: Literal["sublayer", "layer"] = "sublayer", norms: Literal["none", "keep"] = "none", rate: float = 1.0
    ) -> None:
        super().__init__(site)
        self.rate = rate
        self.scale = Scale() if per == "sublayer" else site.shared.setdefault(f"rezero.{site.side}.{site.layer}", Scale())

    @classmethod
    def check(cls, site: dict[str, Any], **options: Any) -> str | None:
        if options.get("norms", "none") == "none" and site["norm"] != "pre":
            return f"found norms none with norm {site['norm']}; expected norm pre, which has none then, or norms keep"
        return cls.check_rate(options)

    @classmethod
    def order(cls, norm: str, **options: Any) -> str:
        return "none" if options.get("norms", "none") == "none" else norm

    def write(self, s: Tensor, y: Tensor, x: Tensor, drop: Dropout) -> Tensor:
        alpha: Tensor = self.scale.alpha  # type: ignore[assignment]
        return s + alpha * drop(y)

    def weights(self, s: Any = None) -> dict[str, Tensor]:
        alpha: Tensor = self.scale.alpha  # type: ignore[assignment]
        one = torch.ones_like(alpha)
        return {"read": one, "keep": one[:, None], "write": alpha}
