"""Everything incremental decoding remembers, outside the model; a slot is the module that asks.

Shapes: N hypothesis rows (sentence-major, K a sentence), B sentences, H heads, T tokens so far, K_ width of a head.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

INITIAL_CAPACITY = 32


class Cache:
    """Two kinds of memory: `append` grows by time and belongs to a hypothesis; `once` is made once and belongs to a sentence."""

    def __init__(self) -> None:
        self.length = 0
        self._grown: dict[nn.Module, list[Tensor]] = {}
        self._filled: dict[nn.Module, int] = {}
        self._made: dict[nn.Module, tuple[Tensor, ...]] = {}

    def append(self, slot: nn.Module, *new: Tensor, window: int | None = None) -> tuple[Tensor, ...]:
        """Add `new` [N, H, t, *] along the time axis (-2); return all so far, or the last `window` positions."""
        step = new[0].shape[-2]
        filled = self._filled.get(slot, 0)
        buffers = self._grown.get(slot)
        if buffers is None or filled + step > buffers[0].shape[-2]:
            capacity = max(INITIAL_CAPACITY, 2 * (filled + step))
            grown = [n.new_empty(*n.shape[:-2], capacity, n.shape[-1]) for n in new]
            for buffer, old in zip(grown, buffers or [], strict=False):
                buffer[..., :filled, :] = old[..., :filled, :]
            self._grown[slot] = buffers = grown
        for buffer, value in zip(buffers, new, strict=True):
            buffer[..., filled : filled + step, :] = value
        self._filled[slot] = filled + step
        start = 0 if window is None else max(0, filled + step - window)
        return tuple(buffer[..., start : filled + step, :] for buffer in buffers)

    def filled(self, slot: nn.Module) -> int:
        """Positions this slot already holds."""
        return self._filled.get(slot, 0)

    def once(self, slot: nn.Module, make: Callable[[], tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
        """The result of `make`, computed at the first call for this slot (rows are sentences)."""
        if slot not in self._made:
            self._made[slot] = make()
        return self._made[slot]

    def reorder(self, hypotheses: Tensor) -> None:
        """Row n of the hypothesis part becomes old row hypotheses[n]; fewer rows shrink it."""
        for slot, buffers in self._grown.items():
            filled = self._filled[slot]
            kept = []
            for buffer in buffers:
                moved = buffer.new_empty(len(hypotheses), *buffer.shape[1:])
                moved[..., :filled, :] = buffer[..., :filled, :].index_select(0, hypotheses)
                kept.append(moved)
            self._grown[slot] = kept

    def select(self, sentences: Tensor) -> None:
        """Keep these rows of the per-sentence part."""
        for slot, values in self._made.items():
            self._made[slot] = tuple(value.index_select(0, sentences) for value in values)

    def bytes(self) -> int:
        """Memory held, in bytes."""
        grown = sum(t.numel() * t.element_size() for buffers in self._grown.values() for t in buffers)
        return grown + sum(t.numel() * t.element_size() for values in self._made.values() for t in values)
