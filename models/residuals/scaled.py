"""Residuals of one stream with scale factors or low-rank maps: ReZero, DeepNorm, LAuReL, deep delta learning and Admin."""

from typing import Any, Literal

import torch
from torch import Tensor, nn

from models.config import Positive
from models.dropout import Dropout
from models.initialise import drawn, starts_as
from models.precision import full_precision
from models.registry import RESIDUALS
from models.seams import Residual
from models.site import Site


class Scale(nn.Module):
    """A learned factor, 0 at the start."""

    def __init__(self) -> None:
        super().__init__()
        self.alpha = starts_as(torch.zeros(1))


@RESIDUALS.register("rezero")
class ReZero(Residual):
    """x + a y, a = 0 at the start, without any norm; the stack's final norm is absent too (Bachlechner et al. 2020, Eq. 1).

    Args:
        per: sublayer: each sub-layer has its own a; layer: the sub-layers of a layer share one a (the authors' package).
        norms: none: no norms; keep: the model keeps its norms (the Transformer-Clinic's "ReZero + Post-LN").
    """

    starts_as_identity = True

    def __init__(
        self, site: Site, *, per: Literal["sublayer", "layer"] = "sublayer", norms: Literal["none", "keep"] = "none", rate: Positive = 1.0
    ) -> None:
        super().__init__(site)
        self.rate = rate
        self.scale = Scale() if per == "sublayer" else site.shared.setdefault(f"rezero.{site.side}.{site.layer}", Scale())

    @classmethod
    def check(cls, site: dict[str, Any], **options: Any) -> str | None:
        if options.get("norms", "none") == "none" and site["norm"] != "pre":
            return f"found norms none with norm {site['norm']}; expected norm pre, which has none then, or norms keep"
        return None

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


@RESIDUALS.register("deepnorm")
class DeepNorm(Residual):
    """LN(alpha x + y); beta scales the initial maps of values, attention output and FFN (Wang et al. 2022, DeepNet, Fig. 2).

    N encoder and M decoder layers: alpha = .81 (N^4 M)^(1/16), beta = .87 (N^4 M)^(-1/16) in the encoder, alpha = (3M)^(1/4),
    beta = (12M)^(-1/4) in the decoder. The paper draws Xavier normal; here the model's `init` draws the maps.

    Args:
        gain: factor in the encoder's beta. paper: .87; torchscale: 1.15 (authors' code).
    """

    norm_orders = ("post",)
    starts_as_identity = True  # beta is part of the method and would have no effect on maps of zero

    def __init__(self, site: Site, *, gain: Literal["paper", "torchscale"] = "paper") -> None:
        super().__init__(site)
        n, m = site.config.encoder.num_layers, site.config.decoder.num_layers
        both = (n**4 * m) ** (1 / 16)
        encoder = site.side == "encoder"
        self.alpha = 0.81 * both if encoder else (3 * m) ** 0.25
        self.initial_gain = (0.87 if gain == "paper" else 1.15) / both if encoder else (12 * m) ** -0.25

    def write(self, s: Tensor, y: Tensor, x: Tensor, drop: Dropout) -> Tensor:
        return drop.add(self.alpha * s, y)


@RESIDUALS.register("laurel")
class Laurel(Residual):
    """a y + b (x + B A x) (Menghani et al. 2025, LAuReL-RW, -LR and both; section 3).

    (a, b) is twice the softmax of two logits, 0 at the start: a = b = 1 (assumed; the paper says "softmax or sigmoid", without a scale).

    Args:
        weights: whether a and b are learned; else they are 1.
        rank: r of A [r, D] and B [D, r], B = 0 at the start (assumed); 0: no low-rank term.
    """

    def __init__(self, site: Site, *, weights: bool = True, rank: int = 0) -> None:
        super().__init__(site)
        self.logits = starts_as(torch.zeros(2)) if weights else None
        self.inner = nn.Linear(site.d_model, rank, bias=False) if rank else None
        self.outer = nn.Linear(rank, site.d_model, bias=False) if rank else None
        if self.outer is not None:
            self.outer.starts_at_zero = True  # type: ignore[assignment]

    @classmethod
    def check(cls, site: dict[str, Any], **options: Any) -> str | None:
        if not options.get("weights", True) and not options.get("rank", 0):
            return "found weights false and rank 0, which is residual plain; expected weights true or rank 1 or more"
        return super().check(site, **options)

    def write(self, s: Tensor, y: Tensor, x: Tensor, drop: Dropout) -> Tensor:
        if self.inner is not None and self.outer is not None:
            s = s + self.outer(self.inner(s))
        if self.logits is None:
            return drop.add(s, y)
        a, b = 2.0 * self.logits.softmax(0)
        return a * drop(y) + b * s

    def weights(self, s: Any = None) -> dict[str, Tensor]:
        """Returns the learned a and b. Empty with a low-rank term, whose effect is not one number per source."""
        if self.logits is None or self.inner is not None:
            return {}
        a, b = 2.0 * self.logits.softmax(0)
        return {"read": torch.ones_like(a)[None], "keep": b[None, None], "write": a[None]}


@RESIDUALS.register("delta", version=2)
class Delta(Residual):
    """x + beta (v - k^T x) k, k = y / |y|, beta = 2 s(w_b^T LN(x) + b), v = 4 s(w_v^T x + c) (Zhang 2026, deep delta learning, d_v = 1).

    The result depends only on the direction of y, so y = 0 is no start. At the start b = c = 0, so beta is about 1; w ~ N(0, .5 / sqrt(D))
    (authors' code). Computed in fp32. Not implemented: the code's expanded state of d_v columns with a convolution over time.
    """

    norm_orders = ("pre",)
    starts_as_identity = True

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        d, std = site.d_model, 0.5 * site.d_model**-0.5
        self.step, self.step_bias = drawn(d, std=std), starts_as(torch.zeros(1))
        self.value, self.value_bias = drawn(d, std=std), starts_as(torch.zeros(1))

    def write(self, s: Tensor, y: Tensor, x: Tensor, drop: Dropout) -> Tensor:
        y = drop(y)
        with full_precision(s):
            s, y, x = s.float(), y.float(), x.float()
            k = y * (y.square().sum(-1, keepdim=True) + 1e-6).rsqrt()
            beta = 2.0 * torch.sigmoid((x * self.step).sum(-1, keepdim=True) + self.step_bias)
            v = 4.0 * torch.sigmoid((s * self.value).sum(-1, keepdim=True) + self.value_bias)
            return s + beta * (v - (k * s).sum(-1, keepdim=True)) * k


class Profile(nn.Module):
    """Value that each sub-layer of a stack passes to the next one while a batch is profiled. `omega` is None at other times."""

    def __init__(self) -> None:
        super().__init__()
        self.omega: float | None = None


@RESIDUALS.register("admin")
class Admin(Residual):
    """LN(omega_i * x + y), omega_i [D] learned and initialised from data (Liu et al. 2020, "Understanding the difficulty of training
    Transformers", section 4).

    One batch in training mode (`profile`) sets the initial values: omega_1 = 1 in the stack's first sub-layer, then omega_{i+1}^2 =
    Var(omega_i x_i) + Var(y_i), as in the authors' code. The paper has sum_{j<=i} Var(y_j). Var is over all values of the batch.
    """

    norm_orders = ("post",)
    starts_as_identity = True  # omega is measured from the sub-layers' outputs, which must not be zero

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self.omega = starts_as(torch.ones(site.d_model))
        self.profile = site.shared.setdefault(f"admin.{site.side}", Profile())

    def write(self, s: Tensor, y: Tensor, x: Tensor, drop: Dropout) -> Tensor:
        if self.profile.omega is not None:
            return self._measured(s, drop(y))
        return drop.add(self.omega * s, y)

    @torch.no_grad()
    def _measured(self, s: Tensor, y: Tensor) -> Tensor:
        """Sets this sub-layer's omega to the profile's value and computes the value for the next sub-layer. Returns omega * s + y."""
        profile = self.profile
        assert isinstance(profile, Profile) and profile.omega is not None
        self.omega.fill_(profile.omega)
        s = self.omega * s
        profile.omega = (float(s.float().var(unbiased=False)) + float(y.float().var(unbiased=False))) ** 0.5
        return s + y

    def weights(self, s: Any = None) -> dict[str, Tensor]:
        """Returns the mean of omega."""
        return {"omega": self.omega.mean()[None]}


def profiles(model: nn.Module) -> list[Profile]:
    """Returns the profiles of the model's stacks. Empty if no residual is initialised from data."""
    return [module for module in model.modules() if isinstance(module, Profile)]


@torch.no_grad()
def profile(model: nn.Module, src_BS: Tensor, tgt_in_BT: Tensor) -> None:
    """Initialises every omega from one batch, in fp32 and training mode."""
    found = profiles(model)
    for each in found:
        each.omega = 1.0
    model.train()
    try:
        model(src_BS, tgt_in_BT)
    finally:
        for each in found:
            each.omega = None
