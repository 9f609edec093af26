"""Multiscale collaboration of Wei et al. 2020 (MSC): a context over the encoder's blocks, and attention that reads it in both stacks.

Shapes: B sentences, T queries, S keys, D model.
"""

from dataclasses import replace
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models.attention import MultiHeadAttention
from models.plain import SingleCrossAttention, SubLayer
from models.registry import BRIDGES, CONTEXTS, CROSS_ATTENTIONS, REGULARIZERS, SELF_ATTENTIONS
from models.seams import Bridge, Context, SelfAttention, WeightPenalty
from models.site import Flow, History, Memory, Site


class GruCell(nn.Module):
    """r, z = s(W x + b + U h + b'); c = tanh(W_c x + b_c + r * (U_c h + b'_c)); h' = (1 - z) * c + z * h: 6 d^2 + 6 d numbers."""

    def __init__(self, site: Site) -> None:
        super().__init__()
        d = site.d_model
        self.input, self.state = (nn.Linear(d, 3 * d) for _ in range(2))
        self.input.fans = self.state.fans = (2 * d, d)  # type: ignore[assignment]  # each gate's [W; U] is one map from 2d to d

    def forward(self, h: Tensor, x: Tensor) -> Tensor:
        (a_r, a_z, a_c), (b_r, b_z, b_c) = self.input(x).chunk(3, dim=-1), self.state(h).chunk(3, dim=-1)
        r, z = torch.sigmoid(a_r + b_r), torch.sigmoid(a_z + b_z)
        c = torch.tanh(a_c + r * b_c)
        return (1.0 - z) * c + z * h


class FfnCell(nn.Module):
    """h' = W2 max(W1 [h; x] + b1, 0) + b2, 2d -> d_ff -> d (the paper gives no width)."""

    def __init__(self, site: Site) -> None:
        super().__init__()
        self.inner = nn.Linear(2 * site.d_model, site.config.d_ff)
        self.outer = nn.Linear(site.config.d_ff, site.d_model)

    def forward(self, h: Tensor, x: Tensor) -> Tensor:
        return self.outer(F.relu(self.inner(torch.cat((h, x), dim=-1))))


@CONTEXTS.register("multiscale")
class MultiscaleContext(Context):
    """C^n = cell(C^{n-1}, b^n), C^0 = h_0 (Wei et al. 2020, Eq. 9). All blocks and positions share one cell; positions are independent.

    C^0 is the embedded source sentence; b^n is the output of block n after the encoder's final norm.

    Args:
        blocks: number of equal blocks of the encoder; a divisor of its number of layers.
        cell: gru: a GRU cell; ffn: a feed-forward network of [C^{n-1}; b^n] with inner width d_ff.
    """

    def __init__(self, site: Site, *, blocks: int = 6, cell: Literal["gru", "ffn"] = "gru") -> None:
        super().__init__(site)
        self.blocks = blocks
        self.cell = GruCell(site) if cell == "gru" else FfnCell(site)

    @classmethod
    def check(cls, site: dict[str, Any], **options: Any) -> str | None:
        return uneven(options.get("blocks", 6), site["encoder_layers"])

    def forward(self, below: Tensor, block: Tensor) -> Tensor:
        return self.cell(below, block)


def uneven(blocks: int, layers: int) -> str | None:
    """Returns one line on what is wrong with `blocks` equal blocks in an encoder of `layers` layers, or None."""
    if layers % blocks == 0:
        return None
    fitting = ", ".join(str(n) for n in range(1, layers + 1) if layers % n == 0)
    return f"found blocks {blocks}, which do not divide the encoder's {layers} layers; expected one of {fitting}"


@BRIDGES.register("multiscale")
class MultiscaleBridge(Bridge):
    """memories_n = (b^n, C^n) for decoder layer n, or (b^n,) in a model without context (Wei et al. 2020, section 3.1).

    b^n: output of encoder block n after the encoder's final norm, which all blocks share.

    Args:
        blocks: number of equal blocks of the encoder; it equals the number of decoder layers.
    """

    reads_context = True
    reads_layers = True

    def __init__(self, site: Site, *, blocks: int = 6) -> None:
        super().__init__(site)
        self.blocks = blocks
        self.dims = (site.d_model,) * (1 if site.config.context is None else 2)

    @classmethod
    def check(cls, site: dict[str, Any], **options: Any) -> str | None:
        blocks, layers = options.get("blocks", 6), site["decoder_layers"]
        if blocks != layers:
            return f"found blocks {blocks}; expected {layers}, a block for each layer of the decoder"
        return uneven(blocks, site["encoder_layers"])

    def memory_dims(self, layer: int) -> tuple[int, ...]:
        return self.dims

    def forward(self, encoded: Tensor, history: History, extra: Memory | None, flow: Flow) -> list[tuple[Memory, ...]]:
        blocks, contexts = ([flow.memory(t) for t in states] for states in (history.blocks, history.contexts))
        return list(zip(blocks, contexts[1:], strict=True)) if contexts else [(block,) for block in blocks]


Gate = Literal["sigmoid", "add"]
CtxNorms = Literal[1, 3]


class ContextAttention(MultiHeadAttention):
    """Att_c = MHA(q, LN_c(C), LN_c(C)) with its own maps (Wei et al. 2020, Eq. 12-13).

    ctx_norms 1: q is the query of the layer's own attention. 3: q = LN_q(x), and keys and values have one norm each. The paper's parameter
    counts require three more norms per layer; the paper does not say where.
    """

    def __init__(self, site: Site, *, ctx_norms: CtxNorms, d_memory: int | None = None) -> None:
        super().__init__(site, d_memory=d_memory)
        self.key_norm = site.layer_norm(d_memory)
        self.query_norm = site.layer_norm() if ctx_norms == 3 else None
        self.value_norm = site.layer_norm(d_memory) if ctx_norms == 3 else None

    def keys_values(self, memory: Memory) -> tuple[Tensor, Tensor]:
        keys = self.key_norm(memory.keys)
        return self.key(keys), self.value(keys if self.value_norm is None else self.value_norm(memory.keys))


class ContextFusion(nn.Module):
    """sigmoid: g * a_h + (1 - g) * a_c, g = s(W_h a_h + W_c a_c + b), element by element (Wei et al. 2020, Eq. 12); add: a_h + a_c.

    A trace (Flow.trace) contains the attention maps of a_h, not those of a_c.
    """

    def __init__(self, site: Site, *, gate: Gate, ctx_norms: CtxNorms, d_memory: int | None = None) -> None:
        super().__init__()
        self.attention = ContextAttention(site, ctx_norms=ctx_norms, d_memory=d_memory)
        self.own = nn.Linear(site.d_model, site.d_model, bias=False) if gate == "sigmoid" else None
        self.context = nn.Linear(site.d_model, site.d_model) if gate == "sigmoid" else None

    def forward(self, a_h: Tensor, q: Tensor, x: Tensor, context: Memory, flow: Flow) -> Tensor:
        """Returns the fused attention [B, T, D]. a_h [B, T, D]: the layer's own attention; q: its query; x: the sub-layer's input."""
        norm = self.attention.query_norm
        a_c = self.attention.over(q if norm is None else norm(x), context, flow if flow.trace is None else replace(flow, trace=None))
        if self.own is None or self.context is None:
            return a_h + a_c
        g = torch.sigmoid(self.own(a_h) + self.context(a_c))
        return torch.lerp(a_c, a_h, g)


@SELF_ATTENTIONS.register("contextual")
class ContextualSelfAttention(SelfAttention):
    """O = SubLayer(x, q -> fuse(MHA(q, q, q), MHA_c(q, C, C))), C the context below the layer's block (Wei et al. 2020, Eq. 10 and 12).

    For the encoder. Dropout follows the fusion. In post-norm the sub-layer's own norm follows the residual sum. The norms of the context
    stay in front of its attention, since nothing else normalises the context.

    Args:
        gate: how the two attentions join. sigmoid: g * a_h + (1 - g) * a_c, with a learned gate g of both; add: a_h + a_c.
        ctx_norms: norms in front of the attention to the context. 1: one for keys and values; 3: one each for queries, keys and values, as
            the paper's parameter counts require.
    """

    reads_context = True

    reads_stream = True

    def __init__(self, site: Site, *, gate: Gate = "sigmoid", ctx_norms: CtxNorms = 1) -> None:
        super().__init__(site)
        self.attention = MultiHeadAttention(site)
        self.fusion = ContextFusion(site, gate=gate, ctx_norms=ctx_norms)
        self.sublayer = SubLayer(site)

    @classmethod
    def check(cls, site: dict[str, Any], **options: Any) -> str | None:
        return None if site["side"] == "encoder" else "found contextual in the decoder; a context is of the source: expected single"

    def forward(self, x: Tensor, lower: tuple[Tensor, ...], context: Tensor | None, flow: Flow) -> Tensor:
        assert context is not None
        memory = flow.memory(context)
        return self.sublayer(x, lambda q: self.fusion(self.attention(q, q, flow), q, x, memory, flow))


@CROSS_ATTENTIONS.register("contextual")
class ContextualCrossAttention(SingleCrossAttention):
    """S = SubLayer(O, q -> fuse(MHA(q, b^n, b^n), MHA_c(q, C^n, C^n))) in decoder layer n (Wei et al. 2020, Eq. 13).

    In a layer with one memory it equals `single`.

    Args:
        gate: how the two attentions join. sigmoid: g * a_h + (1 - g) * a_c, with a learned gate g of both; add: a_h + a_c.
        ctx_norms: norms in front of the attention to the context. 1: one for keys and values; 3: one each for queries, keys and values, as
            the paper's parameter counts require.
    """

    max_memories = 2

    reads_stream = True

    def __init__(self, site: Site, *, gate: Gate = "sigmoid", ctx_norms: CtxNorms = 1) -> None:
        super().__init__(site)
        two = len(site.memory_dims) == 2
        self.fusion = ContextFusion(site, gate=gate, ctx_norms=ctx_norms, d_memory=site.memory_dims[1]) if two else None

    def forward(self, x: Tensor, memories: tuple[Memory, ...], flow: Flow) -> Tensor:
        fusion = self.fusion
        if fusion is None:
            return super().forward(x, memories, flow)
        return self.sublayer(x, lambda q: fusion(self.attention.over(q, memories[0], flow), q, x, memories[1], flow))


@REGULARIZERS.register("encoder_l2")
class EncoderL2(WeightPenalty):
    """loss + weight * sum ||W||^2 over the linear maps of the encoder's stack (Wei et al. 2020, section 4.2 and Table 2).

    These are the maps of its layers, connection, aggregation and context, not embeddings, biases, norms or scalars. The term is part of
    the loss, so Adam sees its gradient. It counts once per update, for any number of micro-batches and workers.

    Args:
        weight: factor of the sum of squares in the loss.
    """

    def __init__(self, site: Site, *, weight: float = 1e-5) -> None:
        super().__init__(site)
        self.weight = weight

    def forward(self, encoder: nn.Module) -> Tensor:
        return torch.stack([module.weight.square().sum() for module in encoder.modules() if isinstance(module, nn.Linear)]).sum()
