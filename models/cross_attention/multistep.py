"""Attention of a convolutional decoder: one in every layer, over keys and values that all layers share."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from models.linear import linear
from models.registry import CROSS_ATTENTIONS
from models.seams import CrossAttention
from models.site import Flow, Memory, Site


@CROSS_ATTENTIONS.register("multistep")
class MultistepAttention(CrossAttention):
    """q = (W_in z + h_0) sqrt(1/2); a = W_out sum over memories of softmax(q K^T) V sqrt(J) (Gehring et al. 2017, section 3.3; summed over
    encoder layers Shen et al. 2018, Eq. 10).

    h_0 [B, T, D]: the target's embedded words. J: the sentence's own source length without padding. z and a have the layer's width; keys
    and values are the memory's as they are, D wide.

    Args:
        query_embedding: whether h_0 is part of the query; else q = W_in z.
    """

    packable = False
    bare = True
    max_memories = 1000

    def __init__(self, site: Site, *, query_embedding: bool = True) -> None:
        super().__init__(site)
        self.query = linear(site.config, site.width, site.d_model)
        self.output = linear(site.config, site.d_model, site.width)
        self.query_embedding = query_embedding

    def forward(self, x: Tensor, memories: tuple[Memory, ...], flow: Flow) -> Tensor:
        q = self.query(x)
        if self.query_embedding:
            assert flow.h_0 is not None
            q = (q + flow.h_0) * math.sqrt(0.5)
        # the hypotheses of a sentence are queries of one row: its keys are never copied
        grouped = q.reshape(memories[0].keys.shape[0], -1, q.shape[-1])
        a = self._attend(grouped, memories[0], flow)
        for memory in memories[1:]:
            a = a + self._attend(grouped, memory, flow)
        return self.output((a * self._root_length(memories[0], flow)).view(q.shape))

    def _attend(self, q_BTD: Tensor, memory: Memory, flow: Flow) -> Tensor:
        """softmax(q K^T) V, summed over the memory's states I: keys [B, S, D] or [B, I, S, D]."""
        values = memory.keys if memory.values is None else memory.values
        keys_BND, values_BND = (t if t.dim() == 3 else t.flatten(1, 2) for t in (memory.keys, values))
        length = memory.mask.shape[1]
        scores = torch.bmm(q_BTD, keys_BND.transpose(1, 2)).unflatten(2, (-1, length))
        weights_BTIS = (scores + memory.bias).softmax(dim=-1)
        if flow.trace is not None:
            flow.trace.append((self, weights_BTIS.transpose(1, 2)))
        return torch.bmm(weights_BTIS.flatten(2).to(values.dtype), values_BND)

    def _root_length(self, memory: Memory, flow: Flow) -> Tensor:
        def make() -> tuple[Tensor]:
            return (memory.mask.sum(1).to(memory.keys.dtype).sqrt()[:, None, None],)

        return (make() if flow.cache is None else flow.cache.once(self, make))[0]
