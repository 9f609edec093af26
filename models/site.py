"""A module's place in the network (Site), the data of one pass (Flow, History) and what a decoder layer can attend to (Memory)."""

from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from torch import Tensor, nn

from models.cache import Cache
from models.config import ModelConfig, StackConfig
from models.packing import Packing, Sentences


class Memory(NamedTuple):
    """States that a decoder layer attends to. keys: [B, S, D]; mask: [B, S], True = real; bias: [B, 1, 1, S].
    values: [B, S, D], or None if the keys are the values. With a packing, keys and values are packed rows [1, P, D]."""

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
    """All that the decoder reads of the source: the memories of each decoder layer and the source mask [B, S].
    words: the encoder's output as keys and the embedded source words as values, if the head reads them; else None."""

    memories: list[tuple[Memory, ...]]
    mask: Tensor
    words: Memory | None = None

    def select(self, sentences: Tensor) -> "Encoded":
        """Returns the parts of these sentences. A memory that several layers share is selected once."""
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
    `layer`: number of the layer, from 1; 0: the whole side. `memory_dims`: widths of the memories of a decoder layer.
    `extra_width`: width of the extra encoder's memory, if the model has one. `output` False: no component reads the stack's output.
    `input_width`: width of the layer's input, if its connection sets it. `width` is `input_width`, or d_model if that is None.
    `before`: number of sub-layers of the stack below this layer. `sublayers`: number of sub-layers of the whole stack.
    `place`: number of the sub-layer in its layer, from 1. `role`: its function: self, cross or ffn. They are 0 and "" if the side's
    residual joins no sub-layer at this site. `order`: order of the norms from the side's residual; None: the model's `norm`.
    `shared`: modules that several sites use. The first site that needs one creates it."""

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
        """Returns the number of the sub-layer in its stack, from 1; 0 for the stack."""
        return self.before + self.place

    def at(self, **fields: Any) -> "Site":
        """Returns a copy with these fields changed. `dataclasses.replace` would read every field, and a recording site would count that."""
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__, **fields)
        return copy

    def layer_norm(self, width: int | None = None) -> nn.LayerNorm:
        return nn.LayerNorm(width or self.d_model, eps=self.config.norm_eps)


@dataclass
class Flow:
    """Data of one pass of one side.
    mask: [B, S], True = real token; None in the decoder. bias: additive, broadcastable to [B, heads, T, S]; None with a cache, which has
    its own bias. cache: the decoder's state from earlier decoding steps. trace: a list that collects attention maps; None: collects none.
    h_0: the decoder's embedded words, for cross-attention that reads them.
    packing: if given, states are packed rows [1, P, D] instead of [B, T, D].
    segments: the sentences of the documents, for a bridge whose encoder reads one sentence at a time (`by_sentence`).
    memo: tensors that the attention layers of a stack share in this pass, by name and layer. Each stack starts with an empty one.
    call: number of the layer's run in this pass, from 0. Only run 0 is traced."""

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
        """Returns states of this side as a memory, with this side's mask, bias and packing."""
        assert self.mask is not None and self.bias is not None
        return Memory(keys, self.mask, self.bias, values, self.packing)

    def slot(self, module: nn.Module) -> Hashable:
        """Returns the module's key in the cache. Each call of the module has its own."""
        return module if self.call == 0 else (module, self.call)


class History:
    """States of a pass that connections, aggregations, bridges and regularizers read: lists indexed by layer, with h_0 at index 0.
    outputs: h_l; kept: what `Connection.keep` returned for h_l; attended: a_l.
    blocks: outputs b^1 .. b^N of the stack's blocks, if it has blocks. contexts: C^0 .. C^N, if it has a context.
    group: the output of the last summary layer, then the states above it. Without summary layers: h_0, h_1, ..
    `memo`: a module's own data for this pass."""

    def __init__(self, h_0: Tensor) -> None:
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

    def add(self, h: Tensor, attended: Tensor | None) -> None:
        """Records the output of one more layer, and what it attended to."""
        self.outputs.append(h)
        self.attended.append(attended)

    def restart(self, base: Tensor) -> None:
        """Starts a new group: `base`, a summary of the layers so far, replaces h_0 for the layers above."""
        self._base, self._below = base, self.num_layers

    @property
    def num_layers(self) -> int:
        return len(self.outputs) - 1
