"""A decoder layer whose one attention reads the target and the source."""

from typing import Any

import torch
from torch import Tensor

from models.attention import MultiHeadAttention
from models.plain import SingleSelfAttention, TransformerLayer
from models.registry import LAYERS
from models.site import Flow, Memory, Site

SOURCE = tuple((name, 0) for name in ("source keys", "source values", "source bias"))
"""In `Flow.memo`: the memory's heads [B, H, S, K] and its bias [B, 1, 1, S], for the attention of one layer."""


class MergedAttention(MultiHeadAttention):
    """MHA with one softmax over keys of its own side and of a memory. Both use the same key and value maps."""

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, flow: Flow, *, causal: bool = False) -> Tensor:
        keys, values, hidden = (flow.memo[name] for name in SOURCE)
        own = hidden.new_zeros(1, 1, 1, 1) if bias is None else bias
        biases = [b.expand(len(k), 1, q.shape[2], n) for b, n in ((own, k.shape[2]), (hidden, keys.shape[2]))]
        return super()._attend(q, torch.cat((k, keys), dim=2), torch.cat((v, values), dim=2), torch.cat(biases, dim=-1), flow)

    def note(self, memory: Memory, flow: Flow) -> None:
        """Maps the memory to keys and values and stores them in flow.memo. Decoding does this once per sentence."""
        heads = self._heads_of(memory) if flow.cache is None else flow.cache.once(flow.slot(self), lambda: self._heads_of(memory))
        flow.memo.update(zip(SOURCE, (*heads, memory.bias), strict=True))


@LAYERS.register("merged_attention")
class MergedLayer(TransformerLayer):
    """C = SubLayer(x, q -> MHA(q, [q; memory], [q; memory])), h = SubLayer(C, FFN), only in the decoder (Zhang et al. 2025, T5Gemma 2).

    One attention, with one set of maps and one softmax, replaces self-attention and cross-attention.
    """

    merges = True

    def __init__(self, site: Site) -> None:
        super().__init__(site.at(memory_dims=()))
        assert isinstance(self.self_attention, SingleSelfAttention)
        plain, merged = self.self_attention.attention, MergedAttention(site)
        merged.query, merged.key, merged.value, merged.output = plain.query, plain.key, plain.value, plain.output
        self.self_attention.attention = merged

    @classmethod
    def check(cls, site: dict[str, Any], **options: Any) -> str | None:
        if site["side"] == "encoder":
            return "merged attention stands in the encoder; expected it in the decoder alone, which has a source"
        return super().check(site, **options)

    @classmethod
    def sublayers(cls, site: Site) -> int:
        return 2

    def forward(
        self, x: Tensor, lower: tuple[Tensor, ...], context: Tensor | None, memories: tuple[Memory, ...], flow: Flow
    ) -> tuple[Tensor, Tensor | None]:
        assert isinstance(self.self_attention, SingleSelfAttention) and isinstance(self.self_attention.attention, MergedAttention)
        self.self_attention.attention.note(memories[0], flow)
        x = self.self_attention(x, lower, context, flow)
        return self.sublayer(x, self.feed_forward), x
