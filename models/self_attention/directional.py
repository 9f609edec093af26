"""Self-attention that looks one way: forward or backward masks, by head or by layer."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from models.attention import MultiHeadAttention
from models.cache import HIDDEN
from models.registry import SELF_ATTENTIONS
from models.seams import SelfAttention
from models.site import Flow, Site
from models.sublayer import SubLayer

Masks = Literal["heads", "layers"]


class DirectionalAttention(MultiHeadAttention):
    """softmax(Q K^T / sqrt(K) + M) V, M_ij = 0 where j <= i in a head that looks back on earlier words, j >= i in one that looks ahead.

    `forward`: for each head, True: j <= i, False: j >= i. The diagonal stays, so that no row of real positions is empty.
    """

    def __init__(self, site: Site, forward_heads: tuple[bool, ...]) -> None:
        super().__init__(site)
        self.forward_heads = forward_heads

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, flow: Flow, *, causal: bool = False) -> Tensor:
        mask = self._mask(q.shape[2], q.device)
        return super()._attend(q, k, v, mask if bias is None else mask + bias, flow)

    def _mask(self, length: int, device: torch.device) -> Tensor:
        """M: [1, H, S, S], or [1, 1, S, S] where all heads look the same way."""
        earlier = torch.full((length, length), HIDDEN, device=device).triu_(1)
        ways = self.forward_heads[:1] if len(set(self.forward_heads)) == 1 else self.forward_heads
        return torch.stack([earlier if forward else earlier.T for forward in ways])[None]


@SELF_ATTENTIONS.register("directional")
class DirectionalSelfAttention(SelfAttention):
    """The encoder's self-attention with directional masks and no parameters of its own (after DiSAN, Shen et al. 2018; Hao et al. 2019,
    Table 4).

    How Hao et al. put DiSAN's masks into multi-head attention is not stated: both are readings, `heads` the one taken.

    Args:
        masks: heads: the first half of the heads looks at positions j <= i, the second at j >= i; layers: odd layers look at j <= i, even
            ones at j >= i.
    """

    def __init__(self, site: Site, *, masks: Masks = "heads") -> None:
        super().__init__(site)
        heads = range(site.num_heads)
        forward = tuple(h < site.num_heads // 2 for h in heads) if masks == "heads" else tuple(site.layer % 2 == 1 for _ in heads)
        self.attention = DirectionalAttention(site, forward)
        self.sublayer = SubLayer(site)

    @classmethod
    def check(cls, site: dict[str, Any], **options: Any) -> str | None:
        if site["side"] == "decoder":
            return "directional self-attention stands in the decoder; expected it in the encoder alone: a decoder looks back in any case"
        if options.get("masks", "heads") == "heads" and site["num_heads"] % 2:
            return f"masks heads gives each direction half of the heads; num_heads is {site['num_heads']}, expected an even number"
        return None

    def forward(self, x: Tensor, lower: tuple[Tensor, ...], context: Tensor | None, flow: Flow) -> Tensor:
        return self.sublayer(x, lambda q: self.attention(q, q, flow))
