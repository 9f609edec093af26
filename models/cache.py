"""State of incremental decoding. A slot is the key of a module in the cache: the module, with the number of its call in the step.

Shapes: N hypothesis rows (sentence-major), B sentences, W = N / B rows per sentence (1 at first, then the beam), H heads, T new positions,
C cells of a sentence, K width of a head.

Keys and values of self-attention lie in cells that never move. All hypotheses of a sentence share its cells; `past` lists the cells of each
hypothesis. `attend` reads only these cells. `extend` returns all cells, and a bias hides the cells of other hypotheses.
"""

from collections.abc import Callable, Hashable, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from models import native

INITIAL_CAPACITY = 32
HIDDEN = native.HIDDEN
STEPS_AHEAD, ROUNDED = 8, 16
"""Number of steps for which cells are allocated ahead; allocations are multiples of ROUNDED (SIMD width)."""
Slot = Hashable


class Cache:
    """Three kinds of state. `extend`, `attend`: keys and values in cells, per sentence. `recent`: the last positions of each hypothesis.
    `once`: tensors that are computed once per sentence."""

    def __init__(self) -> None:
        self.length = 0
        self._recent: dict[Slot, Tensor] = {}
        self._made: dict[Slot, tuple[Tensor, ...]] = {}
        self._cells: dict[Slot, list[Tensor]] = {}  # [B, H, capacity, K]; for `attend` [B, 1, capacity, H K]
        self._capacity = INITIAL_CAPACITY
        self._past: Tensor | None = None  # [N, positions so far]: cells
        self._shared = False  # whether several rows have ever shared a sentence's cells; else each row sees all cells
        self._bias: Tensor | None = None  # bias of this step, computed at its first use
        self._shape = (0, 0, 0)  # B, W, T of the current step
        self._start = self._end = 0  # cells of the current step; `_end` is also the number of all cells
        self._times: Tensor | None = None  # [cells so far]

    def begin(self, rows: int, length: int, sentences: int, device: torch.device) -> None:
        """Starts a step with `length` new positions for each of `rows` hypotheses."""
        width = rows // sentences
        self._shape, self._start, self._bias = (sentences, width, length), self._end, None
        self._end += width * length
        self._shared |= width > 1
        if self._end > self._capacity:
            ahead = STEPS_AHEAD * width * length if self._shared else self._end
            self._capacity = -(-(self._end + ahead) // ROUNDED) * ROUNDED
        if not self._shared:  # the only row of a sentence sees all its cells, which are in the order of time
            self._past = torch.arange(self._end, device=device).repeat(rows, 1)
            self._times = self._past[0]
            return
        new = torch.arange(self._start, self._end, device=device).view(width, length).repeat(sentences, 1)
        self._past = new if self._past is None else torch.cat((self._past, new), dim=1)
        now = torch.arange(self.length, self.length + length, device=device).repeat(width)
        self._times = now if self._times is None else torch.cat((self._times, now))

    def bias(self) -> Tensor | None:
        """Returns the bias of this step's attention over the cells from `extend`: [B, 1, W*T, C]. A position sees its own row's cells up to
        its own time. None if every position sees all cells."""
        (B, W, T), past = self._shape, self._past
        assert past is not None
        if self._bias is None and (T > 1 or self._shared):
            bias = torch.full((B * W, T, self._capacity if self._shared else self._end), HIDDEN, device=past.device)
            for t in range(T):
                bias[:, t].scatter_(1, past[:, : past.shape[1] - T + t + 1], 0.0)
            self._bias = bias.view(B, 1, W * T, -1)
        return self._bias

    def extend(self, slot: Slot, *new: Tensor) -> tuple[Tensor, ...]:
        """Writes `new` [N, T, H, K] to this step's cells and returns the sentences' cells [B, H, C, K], in the order of `bias`."""
        (B, W, T), start, end = self._shape, self._start, self._end
        buffers = self.room(slot, new[0], *(n.shape[2:] for n in new))
        for buffer, value in zip(buffers, new, strict=True):
            buffer[:, :, start:end] = value.reshape(B, W * T, *value.shape[2:]).transpose(1, 2)
        return tuple(buffers) if self._shared else tuple(buffer[:, :, :end] for buffer in buffers)

    def attend(self, slot: Slot, q: Tensor, k: Tensor, v: Tensor, heads: int) -> Tensor:
        """softmax(Q K^T / sqrt(K)) V for this step's positions [N, T, D], each over its own past and itself, in C (`models.native`)."""
        past, start = self.step()
        keys, values = self.room(slot, k, *[(1, k.shape[-1])] * 2)
        return native.attend_cells(q, k, v, keys, values, past, sentences=self._shape[0], start=start, heads=heads)

    def step(self) -> tuple[Tensor, int]:
        """Returns the arguments `past` and `start` of `native.attend_cells` for this step."""
        assert self._past is not None
        return self._past, self._start

    def room(self, slot: Slot, like: Tensor, *shapes: Sequence[int]) -> list[Tensor]:
        """Returns cells [B, H, C, K] for each of `shapes` (H, K), with the contents so far."""
        buffers = self._cells.get(slot)
        assert buffers is None or buffers[0].shape[3] == shapes[0][1], "a slot's steps are all traced, or none is"
        if buffers is None or buffers[0].shape[2] != self._capacity:
            # zeros, because hidden cells must be finite
            grown = [like.new_zeros(self._shape[0], heads, self._capacity, width) for heads, width in shapes]
            for buffer, old in zip(grown, buffers or [], strict=False):
                buffer[:, :, : self._start] = old[:, :, : self._start]
            self._cells[slot] = buffers = grown
        return buffers

    def times(self) -> tuple[Tensor, Tensor]:
        """Returns the time steps, from 0, of this step's queries [1, W*T] and of all cells [1, C]."""
        assert self._times is not None
        missing = self._capacity - self._end if self._shared else 0
        return self._times[None, self._start :], F.pad(self._times, (0, missing))[None]

    def recent(self, slot: Slot, new: Tensor, past: int) -> Tensor:
        """Returns [N, past + t, *]: the last `past` positions of this slot (zeros before the first one), then `new` [N, t, *]."""
        before = self._recent.get(slot)
        if before is None:
            before = new.new_zeros(new.shape[0], past, *new.shape[2:])
        together = torch.cat((before, new), dim=1)
        self._recent[slot] = together[:, together.shape[1] - past :]
        return together

    def once(self, slot: Slot, make: Callable[[], tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
        """Returns the result of `make`, which runs at the first call for this slot. Rows of the result are sentences."""
        if slot not in self._made:
            self._made[slot] = make()
        return self._made[slot]

    def reorder(self, hypotheses: Tensor) -> None:
        """Replaces row n of the hypotheses by old row hypotheses[n] of the same sentence. If sentences are removed, call `select` next."""
        if self._past is not None:
            self._past = self._past.index_select(0, hypotheses)
        for slot, recent in self._recent.items():
            self._recent[slot] = recent.index_select(0, hypotheses)

    def select(self, sentences: Tensor) -> None:
        """Keeps only these rows of the per-sentence state."""
        for slot, values in self._made.items():
            self._made[slot] = tuple(value.index_select(0, sentences) for value in values)
        for slot, buffers in self._cells.items():
            kept = [torch.zeros_like(buffer[: len(sentences)]) for buffer in buffers]
            for moved, buffer in zip(kept, buffers, strict=True):
                moved[:, :, : self._end] = buffer[:, :, : self._end].index_select(0, sentences)
            self._cells[slot] = kept
