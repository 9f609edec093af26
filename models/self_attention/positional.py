"""Self-attention with relative positions or with directional masks."""

import math
from typing import Any, Literal

import torch
from torch import Tensor

from models.attention import MultiHeadAttention
from models.cache import HIDDEN
from models.config import UpTo1000
from models.initialise import drawn, uniform_bound
from models.plain import SingleSelfAttention
from models.registry import SELF_ATTENTIONS
from models.site import Flow, Site


class RelativeAttention(MultiHeadAttention):
    """e_ij = q_i (k_j + a^K_ij) / sqrt(K), z_i = sum_j alpha_ij (v_j + a^V_ij) (Shaw et al. 2018, Eq. 3 and 4).

    a_ij = a[clip(j - i, -k, k) + k]; a^K, a^V: learned tables [H, M, K] of the layer, M = 2k + 1. Attention dropout acts on alpha,
    before both sums. No tensor of size [T, S, K] is built: q_i a^K for the M offsets is gathered to the keys, and alpha is summed by offset
    before the product with a^V (section 3.3). A causal layer reads only the k + 1 offsets j <= i of its tables. The other rows still exist
    and count as parameters, as in the papers.

    Initial values: U(+-sqrt(6 / (M + K))), with each head's table as one matrix. tensor2tensor's default initialiser gives this for such a
    table (assumed: the paper states none)."""

    def __init__(self, site: Site, k: int) -> None:
        super().__init__(site)
        self.k = k
        bound = uniform_bound("xavier", 2 * k + 1, self.d_head)
        self.key_offsets, self.value_offsets = (drawn(self.num_heads, 2 * k + 1, self.d_head, bound=bound) for _ in range(2))

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, flow: Flow, *, causal: bool = False) -> Tensor:
        """[B, H, T, K], [B, H, S, K] x 2 -> [B, T, H K]"""
        offsets = self._offsets(q, k, flow)
        read = self.k + 1 if flow.causal else 2 * self.k + 1
        q = q * (1.0 / math.sqrt(self.d_head))
        by_offset = by_head(q, self.key_offsets[:, :read].transpose(1, 2))
        scores = torch.matmul(q, k.transpose(-2, -1)) + by_offset.gather(-1, offsets.expand(*by_offset.shape[:-1], -1))
        weights = (scores if bias is None else scores + bias).softmax(dim=-1)
        if flow.trace is not None:
            flow.trace.append((self, weights))
        weights = self.dropout(weights)
        summed = weights.new_zeros(*weights.shape[:-1], read).scatter_add(-1, offsets.expand_as(weights), weights)  # by offset
        z = torch.matmul(weights.to(v.dtype), v) + by_head(summed.to(v.dtype), self.value_offsets[:, :read])
        return z.transpose(1, 2).flatten(2)

    def _offsets(self, q: Tensor, k: Tensor, flow: Flow) -> Tensor:
        """Returns the table row for each query and key: [1 or B, 1, T, S]. Keys that a causal query may not see get offset 0."""
        if flow.cache is None:
            queries, keys = (torch.arange(x.shape[2], device=q.device)[None] for x in (q, k))
        else:
            queries, keys = flow.cache.times()
        return (keys[:, None, None, :] - queries[:, None, :, None]).clamp(-self.k, 0 if flow.causal else self.k) + self.k


def by_head(x: Tensor, table_HNP: Tensor) -> Tensor:
    """x_h A_h: [B, H, T, N], [H, N, P] -> [B, H, T, P]. One product per head, since all sentences share A."""
    return torch.bmm(x.transpose(0, 1).flatten(1, 2), table_HNP).unflatten(1, (x.shape[0], x.shape[2])).transpose(0, 1)


@SELF_ATTENTIONS.register("relative")
class RelativeSelfAttention(SingleSelfAttention):
    """C = SubLayer(x, q -> MHA with relative positions) (Shaw et al. 2018; per layer and head, k = 16, in Hao et al. 2019, Table 4).

    `model.positions` still applies; Shaw's model has no absolute positions.

    Args:
        k: largest distance in subwords with its own table row; larger distances count as k. 1 to 1000.
    """

    takes_views = False

    def __init__(self, site: Site, *, k: UpTo1000 = 16) -> None:
        super().__init__(site, RelativeAttention(site, k))


Masks = Literal["heads", "layers"]


class DirectionalAttention(MultiHeadAttention):
    """softmax(Q K^T / sqrt(K) + M) V; M hides j > i in a head that reads earlier words, and j < i in a head that reads later words.

    `forward_heads`: for each head, True: j <= i, False: j >= i. No head hides the diagonal, so no row of real positions is empty.
    """

    def __init__(self, site: Site, forward_heads: tuple[bool, ...]) -> None:
        super().__init__(site)
        self.forward_heads = forward_heads

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, flow: Flow, *, causal: bool = False) -> Tensor:
        mask = self._mask(q.shape[2], q.device)
        return super()._attend(q, k, v, mask if bias is None else mask + bias, flow)

    def _mask(self, length: int, device: torch.device) -> Tensor:
        """Returns M: [1, H, S, S], or [1, 1, S, S] if all heads have the same direction."""
        earlier = torch.full((length, length), HIDDEN, device=device).triu_(1)
        ways = self.forward_heads[:1] if len(set(self.forward_heads)) == 1 else self.forward_heads
        return torch.stack([earlier if forward else earlier.T for forward in ways])[None]


@SELF_ATTENTIONS.register("directional")
class DirectionalSelfAttention(SingleSelfAttention):
    """The encoder's self-attention with directional masks and no new parameters (after DiSAN, Shen et al. 2018; Hao et al. 2019, Table 4).

    Hao et al. do not state how they put DiSAN's masks into multi-head attention. Both options are readings; `heads` is the default.

    Args:
        masks: heads: the first half reads positions j <= i, the second half j >= i; layers: odd layers read j <= i, even layers j >= i.
    """

    takes_views = False

    def __init__(self, site: Site, *, masks: Masks = "heads") -> None:
        heads = range(site.num_heads)
        forward = tuple(h < site.num_heads // 2 for h in heads) if masks == "heads" else tuple(site.layer % 2 == 1 for _ in heads)
        super().__init__(site, DirectionalAttention(site, forward))

    @classmethod
    def check(cls, site: dict[str, Any], **options: Any) -> str | None:
        if site["side"] == "decoder":
            return "directional self-attention stands in the decoder; expected it in the encoder alone: a decoder looks back in any case"
        if options.get("masks", "heads") == "heads" and site["num_heads"] % 2:
            return f"masks heads gives each direction half of the heads; num_heads is {site['num_heads']}, expected an even number"
        return None
