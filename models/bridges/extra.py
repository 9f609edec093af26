"""A second memory for the decoder (Hao et al. 2019, section 3): recurrent encoders beside the stack, bridges that pass their states to the
decoder, and cross-attention that reads them.

Shapes: B sentences, S source positions, T slots of the memory (S, or a number of steps), d d_model.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Literal

import torch
from torch import Tensor, nn

from models.attention import MultiHeadAttention, padding_bias
from models.config import UpTo1000
from models.dropout import Dropout
from models.packing import Packing, may_pack, worth_packing
from models.plain import FeedForward, SingleCrossAttention, SubLayer
from models.recurrence import BiArn, BiRnn
from models.registry import BRIDGES, CROSS_ATTENTIONS, ENCODERS
from models.seams import Bridge, ExtraEncoder
from models.site import Flow, History, Memory, Site

Recurrence = Callable[[Site, int], nn.Module]
"""(site, width of the input) -> a module (states, mask) -> (states 2d wide, mask)"""


class FirstSubLayer(nn.Module):
    """A sub-layer without residual: post: LN(drop(f(x))); pre: drop(f(LN(x)))."""

    def __init__(self, site: Site, width: int, output: int) -> None:
        super().__init__()
        self.pre = site.norm == "pre"
        self.norm = site.layer_norm(width if self.pre else output)
        self.dropout = Dropout(site.config.dropout.residual)

    def forward(self, x: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
        return self.dropout(function(self.norm(x))) if self.pre else self.norm(self.dropout(function(x)))


class RecurrentLayer(nn.Module):
    """C = SubLayer(H, Rec), in the first layer without residual; H' = SubLayer(C, FFN) with `feed_forward`, else C. Width 2d."""

    def __init__(self, site: Site, make: Recurrence, feed_forward: bool) -> None:
        super().__init__()
        d = site.d_model
        first = site.layer == 1
        self.recurrence = make(site, d if first else 2 * d)
        self.recurrence_sublayer = FirstSubLayer(site, d, 2 * d) if first else SubLayer(site, 2 * d)
        self.feed_forward = FeedForward(site, 2 * d) if feed_forward else None
        self.sublayer = SubLayer(site, 2 * d) if feed_forward else None

    def forward(self, h: Tensor, mask: Tensor, packing: Packing | None) -> tuple[Tensor, Tensor]:
        slots = mask

        def recurrence(x: Tensor) -> Tensor:
            nonlocal slots
            states, slots = self.recurrence(x, mask, packing)
            return states

        c = self.recurrence_sublayer(h, recurrence)
        if self.sublayer is None or self.feed_forward is None:
            return c, slots
        return self.sublayer(c, self.feed_forward), slots


class RecurrentEncoder(ExtraEncoder):
    """H^0 = drop(E[w] * sqrt(d) + b), plus positions if `positions`; H^n = RecurrentLayer(H^{n-1}).

    Residual dropout acts on every sub-layer's output. norm pre: the Transformer's pre-norm form, with one more LN at the end.

    Args:
        num_layers: number of recurrent layers.
        rec_input_pos: whether positions are added to the words.
    """

    def __init__(self, site: Site, make: Recurrence, *, num_layers: int, positions: bool, feed_forward: bool = True) -> None:
        super().__init__(site)
        self.width = 2 * site.d_model
        self.positions = positions
        self.dropout = Dropout(site.config.dropout.embedding)
        self.layers = nn.ModuleList(
            RecurrentLayer(replace(site, layer=n, num_layers=num_layers), make, feed_forward) for n in range(1, num_layers + 1)
        )
        self.norm = site.layer_norm(self.width) if site.norm == "pre" else None

    def forward(self, words: Tensor, h_0: Tensor, flow: Flow) -> Memory:
        assert flow.mask is not None
        h, mask = h_0 if self.positions else self.dropout(words), flow.mask
        packing = self._packing(mask)
        h = h if packing is None else packing.pack(h)
        for layer in self.layers:
            h, mask = layer(h, mask, packing)
        h = h if self.norm is None else self.norm(h)
        return Memory(h, mask, padding_bias(mask), packing=packing)

    def _packing(self, mask: Tensor) -> Packing | None:
        """Returns a packing in training on a CPU, as in the stack, if the recurrence gives one state per position; else None."""
        return worth_packing(mask) if self.aligned and self.training and may_pack(mask.device) else None


@ENCODERS.register("birnn")
class BiRnnEncoder(RecurrentEncoder):
    """C^1 = LN(BiRNN(H^0)), C^n = LN(BiRNN(H^{n-1}) + H^{n-1}), H^n = LN(FFN(C^n) + C^n); 2d wide (Hao et al. 2019, section 3.1).

    H^0: word embeddings. Both directions start from the mean of the sentence's inputs. Assumed: the form of the GRU (`models.gru`).
    norm pre (not in the paper): C^1 = BiRNN(LN(H^0)), C^n = BiRNN(LN(H^{n-1})) + H^{n-1}, H^n = FFN(LN(C^n)) + C^n, and a final LN.
    """

    aligned = True

    def __init__(self, site: Site, *, num_layers: UpTo1000 = 1, rec_input_pos: bool = False) -> None:
        super().__init__(site, BiRnn, num_layers=num_layers, positions=rec_input_pos)


@ENCODERS.register("biarn")
class BiArnEncoder(RecurrentEncoder):
    """C^1 = LN(BiARN(H^0)), C^n = LN(BiARN(H^{n-1}) + H^{n-1}), H^n = LN(FFN(C^n) + C^n); T slots, 2d wide (Hao et al. 2019, section 3.1).

    The first layer reads J inputs, one for each token. The other layers read T inputs. H^0: word embeddings. norm pre: as in `birnn`.

    Args:
        steps: T, the number of slots of the memory. "J": as many slots as the sentence has tokens, without padding.
        rec_input_pos: whether positions are added to the words (without them, the network reads a bag of words).
    """

    def __init__(self, site: Site, *, num_layers: UpTo1000 = 1, steps: UpTo1000 | Literal["J"] = 8, rec_input_pos: bool = False) -> None:
        super().__init__(site, partial(BiArn, steps=steps), num_layers=num_layers, positions=rec_input_pos)


@ENCODERS.register("multi_column")
class MultiColumnEncoder(RecurrentEncoder):
    """H^1 = LN(BiRNN(H^0)), H^n = LN(BiRNN(H^{n-1}) + H^{n-1}): bidirectional GRU layers over the word embeddings, with d units per
    direction, zero first states and no feed-forward networks (Chen et al. 2018, RNN column; a baseline in Hao et al. 2019, Table 4).

    Width and number of units are assumed. norm pre: H^n = BiRNN(LN(H^{n-1})) + H^{n-1}, and a final LN.
    """

    aligned = True

    def __init__(self, site: Site, *, num_layers: UpTo1000 = 6, rec_input_pos: bool = False) -> None:
        super().__init__(site, partial(BiRnn, start="zero"), num_layers=num_layers, positions=rec_input_pos, feed_forward=False)


@BRIDGES.register("extra")
class ExtraBridge(Bridge):
    """memories_l = (H_e, H_r) for some decoder layers, (H_e,) for others (Hao et al. 2019, section 3.3); H_r: the extra encoder's output.

    Args:
        where: the decoder layers that attend to both memories: only the top layer, or all layers."""

    any_width = True
    reads_extra = True
    num_memories = 2

    def __init__(self, site: Site, *, where: Literal["top", "all"] = "top") -> None:
        super().__init__(site)
        assert site.extra_width is not None
        self.where, self.widths = where, (site.d_model, site.extra_width)

    def memory_dims(self, layer: int) -> tuple[int, ...]:
        return self.widths if self.where == "all" or layer == self.num_layers else self.widths[:1]

    def forward(self, encoded: Tensor, history: History, extra: Memory | None, flow: Flow) -> list[tuple[Memory, ...]]:
        assert extra is not None
        memories = (flow.memory(encoded), extra)
        return [memories[: len(self.memory_dims(layer))] for layer in range(1, self.num_layers + 1)]


@BRIDGES.register("merged")
class MergedBridge(Bridge):
    """memories_l = (LN(W [LN(H_e); LN(H_r)]),) for every decoder layer l (Chen et al. 2018, multi-column encoder; W is d x (d + d_r)).

    H_r has a state for each source position.
    """

    any_width = True
    reads_extra = True
    needs_aligned = True

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        assert site.extra_width is not None
        self.encoder_norm, self.extra_norm = site.layer_norm(), site.layer_norm(site.extra_width)
        self.merge = nn.Linear(site.d_model + site.extra_width, site.d_model, bias=False)
        self.norm = site.layer_norm()

    def forward(self, encoded: Tensor, history: History, extra: Memory | None, flow: Flow) -> list[tuple[Memory, ...]]:
        assert extra is not None
        recurrent = extra.keys if extra.packing is None else extra.packing.unpack(extra.keys)
        recurrent = recurrent if flow.packing is None else flow.packing.pack(recurrent)
        merged = self.norm(self.merge(torch.cat((self.encoder_norm(encoded), self.extra_norm(recurrent)), dim=-1)))
        return [(flow.memory(merged),)] * self.num_layers


class TwoMemories(SingleCrossAttention):
    """Cross-attention to one or two memories. With one it is `single`; `extra` attends to the second one in its own sub-layer."""

    max_memories = 2

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self.extra_attention: MultiHeadAttention | None = None
        if len(site.memory_dims) == 2:
            self.extra_attention = MultiHeadAttention(site, d_memory=site.memory_dims[1])
            self.extra_sublayer = SubLayer(site.at(place=site.place + 1))

    @classmethod
    def sublayers(cls, site: Site) -> int:
        return len(site.memory_dims)

    def extra(self, x: Tensor, memory: Memory, flow: Flow) -> Tensor:
        """SubLayer(x, q -> MHA(q, H_r, H_r))"""
        attention = self.extra_attention
        assert attention is not None
        return self.extra_sublayer(x, lambda q: attention.over(q, memory, flow))


@CROSS_ATTENTIONS.register("gated_sum")
class GatedSumCrossAttention(TwoMemories):
    """D = SubLayer(C, q -> MHA(q, H_e, H_e)); R = SubLayer(C, q -> MHA(q, H_r, H_r)); l = s(W [D; R] + b); l * D + (1 - l) * R

    (Hao et al. 2019, section 3.2, gated sum).
    """

    reads_stream = True

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self.gate = None if self.extra_attention is None else nn.Linear(2 * site.d_model, site.d_model)

    def forward(self, x: Tensor, memories: tuple[Memory, ...], flow: Flow) -> Tensor:
        attended = super().forward(x, memories, flow)
        if self.gate is None:
            return attended
        recurrent = self.extra(x, memories[1], flow)
        share = torch.sigmoid(self.gate(torch.cat((attended, recurrent), dim=-1)))
        return share * attended + (1.0 - share) * recurrent


@CROSS_ATTENTIONS.register("stacked")
class StackedCrossAttention(TwoMemories):
    """D = SubLayer(C, q -> MHA(q, H_e, H_e)); R = SubLayer(D, q -> MHA(q, H_r, H_r)) (Hao et al. 2019, section 3.2, stack)."""

    def forward(self, x: Tensor, memories: tuple[Memory, ...], flow: Flow) -> Tensor:
        attended = super().forward(x, memories, flow)
        return attended if self.extra_attention is None else self.extra(attended, memories[1], flow)
