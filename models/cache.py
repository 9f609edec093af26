"""Everything incremental decoding remembers. A slot is the module that asks, with its call in the step.

Shapes: N hypothesis rows (sentence-major), B sentences, W = N / B rows a sentence (1 at first, then the beam), H heads, T new positions,
C cells of a sentence, K width of a head.

Keys and values of self-attention lie in cells that never move: the cells of a sentence belong to all its hypotheses, and `past` says which
of them are a hypothesis's own. `attend` reads those cells alone; `extend` returns all, for products under a bias that hides the rest.
"""

from collections.abc import Callable, Hashable, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from models import native

INITIAL_CAPACITY = 32
HIDDEN = native.HIDDEN
STEPS_AHEAD, ROUNDED = 8, 16
"""Cells are made for some steps to come, in multiples of what a processor adds at once."""
Slot = Hashable


class Cache:
    """Three kinds of memory. `extend`, `attend`: keys and values in cells, by sentence. `recent`: the last positions of a hypothesis.
    `once`: computed once for a sentence."""

    def __init__(self) -> None:
        self.length = 0
        self._recent: dict[Slot, Tensor] = {}
        self._made: dict[Slot, tuple[Tensor, ...]] = {}
        self._cells: dict[Slot, list[Tensor]] = {}  # [B, H, capacity, K]; of `attend` [B, 1, capacity, H K]
        self._capacity = INITIAL_CAPACITY
        self._past: Tensor | None = None  # [N, positions so far]: cells
        self._shared = False  # whether several rows ever shared a sentence's cells; else every row sees all of them
        self._bias: Tensor | None = None  # of this step, once it is asked for
        self._shape = (0, 0, 0)  # B, W, T of the step that `begin` opened
        self._start = self._end = 0  # its cells; `_end` of all
        self._times: Tensor | None = None  # [cells so far]

    def begin(self, rows: int, length: int, sentences: int, device: torch.device) -> None:
        """Open a step of `length` positions of `rows` hypotheses."""
        width = rows // sentences
        self._shape, self._start, self._bias = (sentences, width, length), self._end, None
        self._end += width * length
        self._shared |= width > 1
        if self._end > self._capacity:
            ahead = STEPS_AHEAD * width * length if self._shared else self._end
            self._capacity = -(-(self._end + ahead) // ROUNDED) * ROUNDED
        if not self._shared:  # a sentence's only row sees all its cells, which lie in the order of time
            self._past = torch.arange(self._end, device=device).repeat(rows, 1)
            self._times = self._past[0]
            return
        new = torch.arange(self._start, self._end, device=device).view(width, length).repeat(sentences, 1)
        self._past = new if self._past is None else torch.cat((self._past, new), dim=1)
        now = torch.arange(self.length, self.length + length, device=device).repeat(width)
        self._times = now if self._times is None else torch.cat((self._times, now))

    def bias(self) -> Tensor | None:
        """Of this step's attention over what `extend` returns, [B, 1, W*T, C]: a position sees its own row's cells, from its own time on.
        None where all may be seen."""
        (B, W, T), past = self._shape, self._past
        assert past is not None
        if self._bias is None and (T > 1 or self._shared):
            bias = torch.full((B * W, T, self._capacity if self._shared else self._end), HIDDEN, device=past.device)
            for t in range(T):
                bias[:, t].scatter_(1, past[:, : past.shape[1] - T + t + 1], 0.0)
            self._bias = bias.view(B, 1, W * T, -1)
        return self._bias

    def extend(self, slot: Slot, *new: Tensor) -> tuple[Tensor, ...]:
        """Puts `new` [N, T, H, K] into this step's cells; returns the sentences' cells [B, H, C, K], as `bias` counts."""
        (B, W, T), start, end = self._shape, self._start, self._end
        buffers = self.room(slot, new[0], *(n.shape[2:] for n in new))
        for buffer, value in zip(buffers, new, strict=True):
            buffer[:, :, start:end] = value.reshape(B, W * T, *value.shape[2:]).transpose(1, 2)
        return tuple(buffers) if self._shared else tuple(buffer[:, :, :end] for buffer in buffers)

    def attend(self, slot: Slot, q: Tensor, k: Tensor, v: Tensor, heads: int) -> Tensor:
        """softmax(Q K^T / sqrt(K)) V of this step's positions [N, T, D], each over its own past and itself: `models.native`."""
        past, start = self.step()
        keys, values = self.room(slot, k, *[(1, k.shape[-1])] * 2)
        return native.attend_cells(q, k, v, keys, values, past, sentences=self._shape[0], start=start, heads=heads)

    def step(self) -> tuple[Tensor, int]:
        """`past` and `start` of `native.attend_cells` at this step."""
        assert self._past is not None
        return self._past, self._start

    def room(self, slot: Slot, like: Tensor, *shapes: Sequence[int]) -> list[Tensor]:
        """Cells [B, H, C, K] of each of `shapes` (H, K), with what was put into them so far."""
        buffers = self._cells.get(slot)
        assert buffers is None or buffers[0].shape[3] == shapes[0][1], "a slot's steps are all traced, or none is"
        if buffers is None or buffers[0].shape[2] != self._capacity:
            # hidden cells must be finite
            grown = [like.new_zeros(self._shape[0], heads, self._capacity, width) for heads, width in shapes]
            for buffer, old in zip(grown, buffers or [], strict=False):
                buffer[:, :, : self._start] = old[:, :, : self._start]
            self._cells[slot] = buffers = grown
        return buffers

    def times(self) -> tuple[Tensor, Tensor]:
        """Positions in time of this step's queries [1, W*T] and of all cells [1, C], counted from 0."""
        assert self._times is not None
        missing = self._capacity - self._end if self._shared else 0
        return self._times[None, self._start :], F.pad(self._times, (0, missing))[None]

    def recent(self, slot: Slot, new: Tensor, past: int) -> Tensor:
        """[N, past + t, *]: `new` [N, t, *] behind the last `past` positions put into this slot, zeros before the first."""
        before = self._recent.get(slot)
        if before is None:
            before = new.new_zeros(new.shape[0], past, *new.shape[2:])
        together = torch.cat((before, new), dim=1)
        self._recent[slot] = together[:, together.shape[1] - past :]
        return together

    def once(self, slot: Slot, make: Callable[[], tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
        """The result of `make`, computed at the first call for this slot (rows are sentences)."""
        if slot not in self._made:
            self._made[slot] = make()
        return self._made[slot]

    def reorder(self, hypotheses: Tensor) -> None:
        """Row n of the hypothesis part becomes old row hypotheses[n], of the same sentence; where sentences leave, `select` follows."""
        if self._past is not None:
            self._past = self._past.index_select(0, hypotheses)
        for slot, recent in self._recent.items():
            self._recent[slot] = recent.index_select(0, hypotheses)

    def select(self, sentences: Tensor) -> None:
        """Keep these rows of the per-sentence parts."""
        for slot, values in self._made.items():
            self._made[slot] = tuple(value.index_select(0, sentences) for value in values)
        for slot, buffers in self._cells.items():
            kept = [torch.zeros_like(buffer[: len(sentences)]) for buffer in buffers]
            for moved, buffer in zip(kept, buffers, strict=True):
                moved[:, :, : self._end] = buffer[:, :, : self._end].index_select(0, sentences)
            self._cells[slot] = kept
