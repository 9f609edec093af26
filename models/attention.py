"""Multi-head attention.

Shapes: B memory rows, N query rows (B; in beam search B times the number of hypotheses), T queries, S keys, D d_model, H heads of width K.
"""

import math
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models import native
from models.cache import Cache
from models.dropout import Dropout
from models.layout import Layout
from models.packing import Packing
from models.paths import PATHS
from models.site import Flow, Memory, Site

SHORT = import_module("models.short_attention") if torch.version.cuda is not None and find_spec("triton") else None


class MultiHeadAttention(nn.Module):
    """softmax(Q K^T / sqrt(K)) V over H heads, then an output map (Vaswani et al. 2017, section 3.2). All four maps have biases.
    `d_memory`: width of the inputs of keys and values. `own_values` False: no value map; `shared` returns the values. `heads`: H."""

    def __init__(
        self, site: Site, *, d_query: int | None = None, d_memory: int | None = None, own_values: bool = True, heads: int | None = None
    ) -> None:
        super().__init__()
        d, d_memory = site.d_model, d_memory or site.d_model
        self.num_heads = heads or site.num_heads
        self.d_head = d // self.num_heads
        self.one_product = own_values and (d_query or d) == d_memory
        self.query = nn.Linear(d_query or d, d)
        self.key = nn.Linear(d_memory, d)
        self.value: nn.Linear = nn.Linear(d_memory, d) if own_values else nn.Identity()  # type: ignore[assignment]
        self.output = nn.Linear(d, d)
        self.dropout = Dropout(site.config.dropout.attention)

    def forward(self, x_NTD: Tensor, keys_NSD: Tensor, flow: Flow, values_NSD: Tensor | None = None) -> Tensor:
        """Returns the self-attention of `x` over `keys`, both of this side. The values are `keys` unless given.
        With a cache, `keys` holds only the new positions."""
        values_NSD = keys_NSD if values_NSD is None else values_NSD
        if flow.cache is not None:
            return self._step(x_NTD, keys_NSD, values_NSD, flow)
        rows = self._rows(flow.packing, flow)
        joint = self.joint if x_NTD is keys_NSD is values_NSD else None
        alike = flow.packing is not None and not self.training and type(self).shared is not MultiHeadAttention.shared  # layers share rows
        plain = (joint is not None or alike) and flow.bias is not None and not flow.causal and self.runs_in_c(x_NTD, flow)
        packing = None if rows or plain else flow.packing
        if joint is not None:
            q, k, v = _unpacked(joint(x_NTD), packing).chunk(3, dim=-1)
        elif PATHS.joint_maps and x_NTD is keys_NSD is values_NSD and self.one_product:
            weight = torch.cat((self.query.weight, self.key.weight, self.value.weight))
            bias = torch.cat((self.query.bias, self.key.bias, self.value.bias))
            q, k, v = _unpacked(F.linear(x_NTD, weight, bias), packing).chunk(3, dim=-1)
        else:
            q, k, v = (_unpacked(x, packing) for x in (self.query(x_NTD), self.key(keys_NSD), self.value(values_NSD)))
        k, v = self.shared(q, k, v, flow)
        if rows is not None:
            return self.output(self._attend_rows(q, k, v, rows, rows, causal=flow.causal))
        if plain and flow.bias is not None:
            starts, memory = self._memory(k, v, flow.bias, flow.packing)
            return self.output(native.attend_memory(q, *memory, starts=starts))
        q, k, v = (self._split(x) for x in (q, k, v))
        return self.output(_packed(self._attend(q, k, v, flow.bias, flow, causal=flow.causal), flow.packing))

    def shared(self, q: Tensor, k: Tensor, v: Tensor, flow: Flow) -> tuple[Tensor, Tensor]:
        """Returns keys and values [N, S, D] that self-attention reads and caches. A subclass may mix them across layers (`flow.memo`)."""
        return k, v

    joint: Callable[[Tensor], Tensor] | None = None  # x -> [q; k; v] in one product, prepared by `models.inference`

    def _step(self, x_NTD: Tensor, keys_NTD: Tensor, values_NTD: Tensor, flow: Flow) -> Tensor:
        """Returns the attention of new positions over all cached ones. The W hypotheses of a sentence become W*T queries over its cells."""
        assert flow.cache is not None
        if self.joint is not None and x_NTD is keys_NTD is values_NTD:
            q, k, v = self.joint(x_NTD).chunk(3, dim=-1)
        else:
            q, k, v = self.query(x_NTD), self.key(keys_NTD), self.value(values_NTD)
        k, v = self.shared(q, k, v, flow)
        if self.runs_in_c(q, flow):
            return self.output(flow.cache.attend(flow.slot(self), q, k, v, self.num_heads))
        heads = (self.num_heads, self.d_head)
        k, v = flow.cache.extend(flow.slot(self), k.unflatten(-1, heads), v.unflatten(-1, heads))
        q = q.reshape(k.shape[0], -1, *heads).transpose(1, 2)
        return self.output(self._attend(q, k, v, flow.cache.bias(), flow).view(*x_NTD.shape[:2], -1))

    def over(self, x_NTD: Tensor, memory: Memory, flow: Flow) -> Tensor:
        """Returns the attention over a memory of the source. Decoding maps its keys and values once per sentence."""
        own, read = self._rows(flow.packing, flow), self._rows(memory.packing, flow)
        if own is not None and read is not None:
            return self.output(self._attend_rows(self.query(x_NTD), *self.keys_values(memory), own, read))
        q = _unpacked(self.query(x_NTD), flow.packing)
        rows, length, width = q.shape
        plain = flow.cache is not None and self.runs_in_c(q, flow)
        if flow.cache is None:
            k, v = self._heads_of(memory)
        elif plain:
            k, v, *bias = self.laid_out(memory, flow.cache)
        else:
            k, v = flow.cache.once(self, lambda: self._heads_of(memory))
        # the hypotheses of a sentence become queries of one row, so its keys are never copied
        grouped = q.reshape(k.shape[0], -1, width) if rows != k.shape[0] else q
        if plain:
            z = native.attend_memory(grouped, k, v, *bias).view(rows, length, -1)
        else:
            z = self._attend(self._split(grouped), k, v, memory.bias, flow).reshape(rows, length, -1)
        return self.output(_packed(z, flow.packing))

    def laid_out(self, memory: Memory, cache: Cache) -> tuple[Tensor, ...]:
        """Returns the memory's keys and values in the layout that `native.attend_memory` reads."""
        return cache.once(self.key, lambda: self._memory(*self.keys_values(memory), memory.bias, memory.packing)[1])

    def _memory(self, k: Tensor, v: Tensor, bias: Tensor, packing: Packing | None) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Returns the first row of each sentence, then k and v [N, S, D] in the layout that `native.attend_memory` reads."""
        N, T = k.shape[:2]
        starts = torch.arange(0, N * T + 1, T) if packing is None else packing.starts
        return starts, native.memory_layout(k, v, starts, bias, self.num_heads, packed=packing is not None)

    def _heads_of(self, memory: Memory) -> tuple[Tensor, Tensor]:
        """Returns the memory's keys and values: [B, H, S, K] each."""
        k, v = self.keys_values(memory)
        return self._split(_unpacked(k, memory.packing)), self._split(_unpacked(v, memory.packing))

    def keys_values(self, memory: Memory) -> tuple[Tensor, Tensor]:
        """Returns the memory's keys and values after their linear maps."""
        return self.key(memory.keys), self.value(memory.keys if memory.values is None else memory.values)

    def runs_in_c(self, q: Tensor, flow: Flow) -> bool:
        """Returns whether `models.native` can compute this attention."""
        return self._own(flow) and self.d_head in native.HEADS and native.runs_on(q)

    def _own(self, flow: Flow) -> bool:
        """Returns whether a fused kernel may run: the subclass keeps `_attend`, and no trace collects the weights."""
        return type(self)._attend is MultiHeadAttention._attend and flow.trace is None

    def _rows(self, packing: Packing | None, flow: Flow) -> Layout | None:
        """Returns the layout of packed rows if attention can read them without unpacking; else None."""
        flash = self.d_head % 8 == 0 and self.d_head <= 256
        return packing.layout if packing is not None and flash and self._own(flow) else None

    def _attend_rows(self, q: Tensor, k: Tensor, v: Tensor, own: Layout, read: Layout, *, causal: bool = False) -> Tensor:
        """Attention on packed rows: queries [1, P, D] over keys and values [1, R, D] -> [1, P, D]"""
        q, k, v = (x[0].unflatten(-1, (self.num_heads, self.d_head)) for x in (q, k, v))
        return attend_rows(q, k, v, own, read, self.dropout.p if self.training else 0.0, causal=causal).flatten(1)[None]

    def _split(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:2], self.num_heads, self.d_head).transpose(1, 2)

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, flow: Flow, *, causal: bool = False) -> Tensor:
        """Heads [N, H, T, K], [N, H, S, K] x 2 -> [N, T, H K]. `causal`: `bias` hides only later positions."""
        if (q.is_cuda or flow.cache is not None or not PATHS.attention) and flow.trace is None:
            mask = None if causal or bias is None else bias.to(q.dtype)  # flash attention accepts no mask, only is_causal
            drop = self.dropout.p if self.training else 0.0
            z = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=drop, is_causal=causal)
        else:
            # on a CPU, two batched products with a softmax between them are faster than the fused kernel, forward and backward
            weights = attention_weights(q, k, bias)
            if flow.trace is not None:
                flow.trace.append((self, weights))
            z = torch.matmul(self.dropout(weights).to(v.dtype), v)
        return z.transpose(1, 2).flatten(2)


def attend_rows(q: Tensor, k: Tensor, v: Tensor, own: Layout, read: Layout, p: float, *, causal: bool = False) -> Tensor:
    """softmax(Q K^T / sqrt(K)) V within each sentence: queries [P, H, K], keys and values [R, H, K] of packed rows -> [P, H, K].
    On a GPU in bf16: `attend_short`, or flash attention if sentences are long. Elsewhere, for tests: all pairs of rows under a mask."""
    if q.is_cuda:
        if SHORT is not None and max(own.longest, read.longest) <= SHORT.LONGEST:
            return cast(Tensor, SHORT.attend_short(q, k, v, own, read, p, causal=causal))
        # torch's public form, nn.attention.varlen, has no dropout
        attend = torch.ops.aten._flash_attention_forward
        return attend(q, k, v, own.starts, read.starts, own.longest, read.longest, p, causal, False)[0]
    rows, keys = (torch.arange(len(x), device=q.device) for x in (q, k))
    of_row, of_key = (torch.searchsorted(s, i, right=True) for s, i in ((own.starts, rows), (read.starts, keys)))
    seen = of_row[:, None] == of_key
    seen = seen & (keys <= rows[:, None]) if causal else seen
    q, k, v = (x.transpose(0, 1) for x in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v, attn_mask=seen, dropout_p=p).transpose(0, 1)


def attention_weights(q: Tensor, k: Tensor, bias: Tensor | None) -> Tensor:
    """softmax(Q K^T / sqrt(K) + bias): [N, H, T, K], [N, H, S, K] -> [N, H, T, S]."""
    scores = torch.matmul(q * (1.0 / math.sqrt(q.shape[-1])), k.transpose(-2, -1))
    return (scores if bias is None else scores + bias).softmax(dim=-1)


def _unpacked(x: Tensor, packing: Packing | None) -> Tensor:
    return x if packing is None else packing.unpack(x)


def _packed(x: Tensor, packing: Packing | None) -> Tensor:
    return x if packing is None else packing.pack(x)


def padding_bias(mask_BS: Tensor) -> Tensor:
    """Returns [B, 1, 1, S]: 0 at real tokens, a large negative number at padding. A row with only padding (prefetch adds such rows on a
    GPU) hides nothing: with all scores near -1e9, the backward pass of CUDA's kernel computes inf * 0 in exp(score - logsumexp)."""
    hidden_BS = ~mask_BS & mask_BS.any(dim=1, keepdim=True)
    return torch.zeros(mask_BS.shape, device=mask_BS.device).masked_fill_(hidden_BS, -1e9)[:, None, None, :]


def causal_bias(length: int, device: torch.device) -> Tensor | None:
    """Returns [1, 1, T, T]: position t sees positions up to t. None for a single position."""
    return None if length == 1 else torch.full((length, length), -1e9, device=device).triu_(1)[None, None]
