"""Where a module sits, what travels with a pass, and what a decoder layer can attend to."""

from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from torch import Tensor, nn

from models.cache import Cache
from models.config import ModelConfig, StackConfig
from models.packing import Packing, Sentences


class Memory(NamedTuple):
    """keys: [B, S, D]; mask: [B, S], True = real; values: [B, S, D] where they differ from the keys (DenseNMT); bias: [B, 1, 1, S].
    packing: where it is given, keys and values are packed rows [1, P, D]."""

    keys: Tensor
    mask: Tensor
    bias: Tensor
    values: Tensor | None = None
    packing: Packing | None = None

    def select(self, sentences: Tensor) -> "Memory":
        if self.packing is not None:
            values = None if self.values is None else self.packing.unpack(self.values)
            return Memory(self.packing.unpack(self.keys), self.mask, self.bias, values).select(sentences)
        return Memory(*(None if t is None else t.index_select(0, sentences) for t in self[:4]))  # type: ignore[arg-type]


class Encoded(NamedTuple):
    """All the decoder needs of the source: for each decoder layer its memories, and the source mask [B, S]. words: where the head asks for
    it, the encoder's output as keys and the embedded words as values."""

    memories: list[tuple[Memory, ...]]
    mask: Tensor
    words: Memory | None = None

    def select(self, sentences: Tensor) -> "Encoded":
        """These sentences only; a memory that several layers share is selected once."""
        done: dict[int, Memory] = {}

        def once(memory: Memory) -> Memory:
            if id(memory) not in done:
                done[id(memory)] = memory.select(sentences)
            return done[id(memory)]

        memories = [tuple(once(m) for m in memories) for memories in self.memories]
        return Encoded(memories, self.mask.index_select(0, sentences), None if self.words is None else once(self.words))


@dataclass(frozen=True)
class Site:
    """Position of a module in the network.
    `layer` counts from 1; 0 stands for the whole side. `memory_dims` are the widths of the memories a decoder layer is given.
    `extra_width` is the width of the extra encoder's memory, where there is one. `output` False: nobody reads what the stack returns.
    `input_width` is the width of a layer's input where its connection sets one (`width`: that, or d_model).
    `before`: sub-layers of the stack below this layer; `place`: of a sub-layer in its layer, from 1, `role` its function: self, cross or
    ffn (0 and "": of none that the side's residual joins). `sublayers`: of the whole stack.
    `order`: the place of the norms where it is not the model's, from the side's residual.
    `shared` holds modules that several sites use (the first site that asks makes them).
    """

    side: str
    layer: int
    num_layers: int
    config: ModelConfig
    memory_dims: tuple[int, ...] = ()
    extra_width: int | None = None
    input_width: int | None = None
    output: bool = True
    before: int = 0
    place: int = 0
    role: str = ""
    sublayers: int = 0
    order: str | None = None
    shared: dict[str, nn.Module] = field(default_factory=dict, repr=False, compare=False)

    @property
    def stack(self) -> StackConfig:
        return self.config.encoder if self.side == "encoder" else self.config.decoder

    @property
    def d_model(self) -> int:
        return self.config.d_model

    @property
    def width(self) -> int:
        return self.input_width or self.d_model

    @property
    def num_heads(self) -> int:
        return self.config.num_heads

    @property
    def norm(self) -> str:
        return self.order or self.config.norm

    @property
    def sublayer(self) -> int:
        """Number of a sub-layer in its stack, from 1; 0 for the stack."""
        return self.before + self.place

    def at(self, **fields: Any) -> "Site":
        """A copy with other fields. Unlike `dataclasses.replace` it reads none: where reads are recorded, the copy records its own."""
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__, **fields)
        return copy

    def layer_norm(self, width: int | None = None) -> nn.LayerNorm:
        return nn.LayerNorm(width or self.d_model, eps=self.config.norm_eps)


@dataclass
class Flow:
    """What travels with one pass of one side.
    mask: [B, S] True = real token (None while decoding step by step); bias: additive, broadcastable to [B, heads, T, S] (or in the cache);
    cache: the decoder's memory of earlier steps; trace: collects attention maps where a list is given (off in training).
    h_0: the decoder's embedded words, for cross-attention that reads them.
    packing: where it is given, states are packed rows [1, P, D] in place of [B, T, D].
    segments: the sentences of the documents, where the bridge asks for an encoder that sees one sentence at a time.
    memo: what attention layers of a stack share in this pass, by name and layer; each stack starts with an empty one.
    call: which time a layer runs in this pass, from 0; the trace has its first one.
    """

    mask: Tensor | None = None
    bias: Tensor | None = None
    causal: bool = False
    cache: Cache | None = None
    segments: Sentences | None = None
    packing: Packing | None = None
    trace: list[tuple[nn.Module, Tensor]] | None = None
    h_0: Tensor | None = None
    memo: dict[tuple[str, int], Tensor] = field(default_factory=dict)
    call: int = 0

    def at(self, call: int) -> "Flow":
        return self if call == 0 else replace(self, call=call, trace=None)

    def memory(self, keys: Tensor, values: Tensor | None = None) -> Memory:
        """States of this side as a memory, with its mask and its packing."""
        assert self.mask is not None and self.bias is not None
        return Memory(keys, self.mask, self.bias, values, self.packing)

    def slot(self, module: nn.Module) -> Hashable:
        """The module's in the cache, for what it keeps of each call."""
        return module if self.call == 0 else (module, self.call)


class History:
    """All a connection, aggregation, bridge or regularizer may read: lists indexed by layer, h_0 at index 0.
    inputs: x_l (index 0 unused); outputs: h_l; kept: what the connection kept of h_l; attended: a_l.
    blocks: b^1 .. b^N, the blocks' outputs, where the stack is cut into blocks; contexts: C^0 .. C^N, where it has a context.
    group: the states since the last summary layer, its output first; h_0, h_1, .. where there is none.
    `memo` lets a module keep something of its own for this pass.
    """

    def __init__(self, h_0: Tensor) -> None:
        self.inputs: list[Tensor] = [h_0]
        self.outputs: list[Tensor] = [h_0]
        self.kept: list[Tensor] = [h_0]
        self.attended: list[Tensor | None] = [None]
        self.blocks: list[Tensor] = []
        self.contexts: list[Tensor] = []
        self.memo: dict[nn.Module, Any] = {}
        self._base: Tensor | None = None
        self._below = 0

    @property
    def group(self) -> list[Tensor]:
        base = self.kept[0] if self._base is None else self._base
        return [base, *self.kept[self._below + 1 :]]

    def add(self, x: Tensor, h: Tensor, attended: Tensor | None) -> None:
        """Records the input and output of one more layer, and what it attended to."""
        self.inputs.append(x)
        self.outputs.append(h)
        self.attended.append(attended)

    def restart(self, base: Tensor) -> None:
        """`base`, a summary of the layers so far, takes the place of h_0 for those to come."""
        self._base, self._below = base, self.num_layers

    @property
    def num_layers(self) -> int:
        return len(self.outputs) - 1
