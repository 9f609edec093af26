"""Layer-integrated memory of Gerasimov et al. 2025."""

from __future__ import annotations

import math
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models.attention import MultiHeadAttention
from models.registry import SELF_ATTENTIONS
from models.self_attention.single import SingleSelfAttention
from models.site import Flow, Site


class Router(nn.Module):
    """R [H, l H]: the own layer's block, the last one, starts as the identity, the others U(+-sqrt(3 / (l H))) or 0."""

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
    """MHA over keys and values of all layers so far; layer 1 has no router."""

    def __init__(self, site: Site, router: Router | None) -> None:
        super().__init__(site)
        self.layer, self.router = site.layer, router

    def shared(self, k: Tensor, v: Tensor, flow: Flow) -> tuple[Tensor, Tensor]:
        heads = torch.stack((k, v)).unflatten(-1, (self.num_heads, self.d_head)).transpose(-1, -2).contiguous()
        flow.memo["heads", self.layer] = heads  # [2, B, S, K, H], written once: later layers keep no copies
        if self.router is None:
            return k, v
        routed = self.router([flow.memo["heads", j] for j in range(1, self.layer + 1)])
        k, v = routed.transpose(-1, -2).flatten(-2)
        return k, v


@SELF_ATTENTIONS.register("layer_memory")
class LayerMemory(SingleSelfAttention):
    """K'_h = sum_{j<=l, g} R_l[h, (j, g)] K_{j,g}, V'_h likewise with the same R_l, g the heads of layer j (Gerasimov et al. 2025, LIMe).

    The cache holds the routed keys and values. Cross-attention has its own.

    Args:
        others: what R_l of other layers than the own starts as. random: as in the authors' code; zero: the plain network (assumed).
        rate: factor of the learning rate of R (the authors' is 10).
    """

    shares = True

    def __init__(self, site: Site, *, others: Literal["random", "zero"] = "random", rate: float = 1.0) -> None:
        router = Router(site.num_heads, site.layer, random=others == "random", rate=rate) if site.layer > 1 else None
        super().__init__(site, RoutedAttention(site, router))

    @classmethod
    def check(cls, site: dict[str, Any], **options: Any) -> str | None:
        if site["num_layers"] < 2:
            return "layer_memory needs at least 2 layers; num_layers is 1"
        return cls.check_rate(options)

    def weights(self, s: Any = None) -> dict[str, Tensor]:
        """sum_{h,g} |R_l[h, (j, g)]| / H of each layer j, the own one last."""
        router = getattr(self.attention, "router", None)
        return {} if router is None else {"layers": router.weight.abs().unflatten(1, (-1, len(router.weight))).sum(-1).mean(0)}
