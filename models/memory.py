"""Something a decoder layer can attend to."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from models.packing import Packing


class Memory(NamedTuple):
    """keys: [B, S, D]; mask: [B, S], True = real; values: [B, S, D] where they differ from the keys (DenseNMT); bias: [B, 1, 1, S].

    packing: where it is given, keys and values are packed rows [1, P, D].
    """

    keys: Tensor
    mask: Tensor
    bias: Tensor
    values: Tensor | None = None
    packing: Packing | None = None

    def select(self, sentences: Tensor) -> Memory:
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

    def select(self, sentences: Tensor) -> Encoded:
        """These sentences only; a memory that several layers share is selected once."""
        done: dict[int, Memory] = {}

        def once(memory: Memory) -> Memory:
            if id(memory) not in done:
                done[id(memory)] = memory.select(sentences)
            return done[id(memory)]

        memories = [tuple(once(m) for m in memories) for memories in self.memories]
        return Encoded(memories, self.mask.index_select(0, sentences), None if self.words is None else once(self.words))
