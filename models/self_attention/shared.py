"""Self-attention whose layers share keys or values: value residuals and layer-integrated memory."""

import math
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models.attention import MultiHeadAttention
from models.config import Positive
from models.initialise import starts_as
from models.plain import SingleSelfAttention
from models.registry import SELF_ATTENTIONS
from models.site import Flow, Site

FIRST = ("values", 1)
"""In `Flow.memo`: the values of layer 1, [B, S, D]."""


class Mix(nn.Module):
    """a V_1 + b V, or a V_1 + (1 - a) V if `own` is None."""

    def __init__(self, first: float, own: float | None, *, learn: bool, rate: float) -> None:
        super().__init__()
        self.start, self.rate = [first] if own is None else [first, own], rate
        self.weight = starts_as(torch.tensor(self.start)) if learn else None

    def forward(self, v_1: Tensor, v: Tensor) -> Tensor:
        a, *b = self.start if self.weight is None else self.weight
        return (a * v_1 + (b[0] if b else 1.0 - a) * v).to(v.dtype)


class ValueAttention(MultiHeadAttention):
    """MHA whose values are mixed with layer 1's. Without `own_values` it uses layer 1's values. `mix` None: values are not mixed."""

    def __init__(self, site: Site, mix: Mix | None, *, own_values: bool) -> None:
        super().__init__(site, own_values=own_values)
        self.first, self.own_values, self.mix = site.layer == 1, own_values, mix

    def shared(self, q: Tensor, k: Tensor, v: Tensor, flow: Flow) -> tuple[Tensor, Tensor]:
        if self.first:
            flow.memo[FIRST] = v
        if not self.own_values:
            return k, flow.memo[FIRST]
        return k, v if self.mix is None else self.mix(flow.memo[FIRST], v)


@SELF_ATTENTIONS.register("value_residual")
class ValueResidual(SingleSelfAttention):
    """V_l = a_l V_1 + b_l V for layers l >= from_layer, V = LN(x_l) W^V_l before it is split into heads (Zhou et al. 2025, ResFormer).

    The cache holds the mixed values. Cross-attention has its own values (assumed).

    Args:
        first: a at the start.
        own: b at the start, with form two.
        learn: whether to learn a and b. Published constants: .5 and .5 (authors' code), 2 and 1, or 5 and 1 in the last third ("sparse").
        form: two: a and b are two numbers; interpolate: b = 1 - a (modded-nanogpt).
        from_layer: first layer with mixed values, at least 2.
        share: whether V_l = V_1, without an own value map (SVFormer).
        rate: factor of the learning rate of a and b.
    """

    shares = True
    read_if = (
        *((name, "share", (False,)) for name in ("first", "own", "learn", "form", "rate")),
        *(("own", "form", ("two",)), ("rate", "learn", (True,))),
    )

    def __init__(
        self,
        site: Site,
        *,
        first: float = 0.5,
        own: float = 0.5,
        learn: bool = True,
        form: Literal["two", "interpolate"] = "two",
        from_layer: int = 2,
        share: bool = False,
        rate: Positive = 1.0,
    ) -> None:
        mixes = site.layer >= from_layer
        mix = Mix(first, own if form == "two" else None, learn=learn, rate=rate) if mixes and not share else None
        super().__init__(site, ValueAttention(site, mix, own_values=not (mixes and share)))

    @classmethod
    def check(cls, site: dict[str, Any], **options: Any) -> str | None:
        start, layers = options.get("from_layer", 2), site["num_layers"]
        if not 2 <= start <= layers:
            return f"from_layer is {start}; expected 2 to num_layers, {layers}"
        return super().check(site, **options)

    def weights(self, s: Any = None) -> dict[str, Tensor]:
        """Returns (a, b), or (a) if b = 1 - a."""
        mix = getattr(self.attention, "mix", None)
        return {} if mix is None or mix.weight is None else {"V_1, V": mix.weight}


class Router(nn.Module):
    """R [H, l H]. Its last block belongs to its own layer and starts as the identity. The others start as U(+-sqrt(3 / (l H))) or 0."""

    def __init__(self, heads: int, layers: int, *, random: bool, rate: float) -> None:
        super().__init__()
        self.random, self.rate = random, rate
        self.weight = nn.Parameter(torch.zeros(heads, layers * heads))

    def initialise(self, name: str, generator: torch.Generator) -> Tensor:
        heads, states = self.weight.shape
        bound = math.sqrt(3.0 / states) if self.random else 0.0
        value = torch.empty(heads, states).uniform_(-bound, bound, generator=generator)
        value[:, -heads:] = torch.eye(heads)
        return value

    def forward(self, states: list[Tensor]) -> Tensor:
        """l states [.., H] -> [.., H]"""
        heads = len(self.weight)
        total = F.linear(states[0], self.weight[:, :heads])
        for j, state in enumerate(states[1:], start=1):
            total = total + F.linear(state, self.weight[:, j * heads : (j + 1) * heads])
        return total


class RoutedAttention(MultiHeadAttention):
    """MHA over routed keys and values of all layers so far. Layer 1 has no router."""

    def __init__(self, site: Site, router: Router | None) -> None:
        super().__init__(site)
        self.layer, self.router = site.layer, router

    def shared(self, q: Tensor, k: Tensor, v: Tensor, flow: Flow) -> tuple[Tensor, Tensor]:
        heads = torch.stack((k, v)).unflatten(-1, (self.num_heads, self.d_head)).transpose(-1, -2).contiguous()
        flow.memo["heads", self.layer] = heads  # [2, B, S, K, H], stored once: later layers keep no copies
        if self.router is None:
            return k, v
        routed = self.router([flow.memo["heads", j] for j in range(1, self.layer + 1)])
        k, v = routed.transpose(-1, -2).flatten(-2)
        return k, v


@SELF_ATTENTIONS.register("layer_memory")
class LayerMemory(SingleSelfAttention):
    """K'_h = sum_{j<=l, g} R_l[h, (j, g)] K_{j,g}, V'_h with the same R_l; g: heads of layer j (Gerasimov et al. 2025, LIMe).

    The cache holds the routed keys and values. Cross-attention has its own.

    Args:
        others: initial R_l for layers j < l. random: as in the authors' code; zero: gives the plain network (assumed).
        rate: factor of the learning rate of R (the authors' is 10).
    """

    shares = True
    min_layers = 2

    def __init__(self, site: Site, *, others: Literal["random", "zero"] = "random", rate: Positive = 1.0) -> None:
        router = Router(site.num_heads, site.layer, random=others == "random", rate=rate) if site.layer > 1 else None
        super().__init__(site, RoutedAttention(site, router))

    def weights(self, s: Any = None) -> dict[str, Tensor]:
        """Returns sum_{h,g} |R_l[h, (j, g)]| / H for each layer j; its own layer is last."""
        router = getattr(self.attention, "router", None)
        return {} if router is None else {"layers": router.weight.abs().unflatten(1, (-1, len(router.weight))).sum(-1).mean(0)}
