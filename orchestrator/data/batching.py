"""Global micro-batches. They depend only on (pairs, size, seed, epoch) and are equal for any number of workers.

Pairs of similar length share a batch. They are sorted by length plus a little seeded noise, so batches differ between epochs, and the
order of batches is shuffled. Every pair occurs exactly once per epoch.
"""

import functools
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from models.layout import Layout, Shape
from orchestrator.data.store import Pairs
from orchestrator.data.subword import BOS, EOS, PAD
from orchestrator.specs.schema import BatchSpec

Indices = npt.NDArray[np.int64]
NOISE = 1.0  # tokens


@dataclass(frozen=True)
class Batch:
    """B pairs, padded with PAD. For a GPU: with the layouts of packed rows, and with the shape if many batches share it."""

    src: torch.Tensor  # [B, S] long, ends with EOS
    tgt_in: torch.Tensor  # [B, T] long, starts with BOS
    tgt_out: torch.Tensor  # [B, T] long, ends with EOS
    layouts: tuple[Layout, Layout] | None = None
    shape: Shape | None = None

    def tensors(self) -> list[torch.Tensor]:
        return [self.src, self.tgt_in, self.tgt_out, *(t for layout in self.layouts or () for t in (layout.real, layout.starts))]

    def map(self, change: Callable[[torch.Tensor], torch.Tensor]) -> "Batch":
        """Returns the batch with `change` applied to each of its tensors."""
        layouts = self.layouts
        if layouts is not None:
            src, tgt = (Layout(change(one.real), change(one.starts), one.longest) for one in layouts)
            layouts = src, tgt
        return Batch(change(self.src), change(self.tgt_in), change(self.tgt_out), layouts, self.shape)


class Batches:
    """Cuts a split into micro-batches of `batch.size`.

    `tokens`: B x longest target and B x longest source, with EOS, are at most the size; a longer pair is a batch of its own.
    `sentences`: the size is the number of pairs; one batch per epoch may be smaller.
    """

    def __init__(self, pairs: Pairs, batch: BatchSpec, seed: int) -> None:
        self.batch, self.seed = batch, seed
        self.src, self.tgt = pairs.src_lengths + 1, pairs.tgt_lengths + 1
        self._last: tuple[int, list[Indices]] | None = None

    def epoch(self, e: int) -> list[Indices]:
        """Indices of the pairs of each micro-batch of epoch e, in order. Read-only."""
        if self._last is None or self._last[0] != e:
            rng = _generator(self.seed, e)
            order = self._sorted(rng)
            starts = self._cut(order)
            batches = [order[a:b] for a, b in pairwise([*starts, len(order)])]
            self._last = e, [batches[i] for i in rng.permutation(len(batches))]
        return self._last[1]

    @functools.cached_property
    def count(self) -> int:
        """Number of batches of the first epoch."""
        return len(self._cut(self._sorted(_generator(self.seed, 0))))

    def _sorted(self, rng: np.random.Generator) -> Indices:
        noise = rng.random((2, len(self.tgt)))
        tgt = np.floor(self.tgt + noise[0] * (1.0 + NOISE))
        return np.lexsort((self.src + noise[1], tgt)).astype(np.int64)

    def _cut(self, order: Indices) -> list[int]:
        size = self.batch.size
        if self.batch.unit == "sentences":
            return list(range(0, len(order), size))
        src, tgt = self.src[order], self.tgt[order]
        starts, start = [], 0
        while start < len(order):
            starts.append(start)
            most = max(1, size // int(max(src[start], tgt[start])))
            window = slice(start, start + most)
            widest = np.maximum.accumulate(np.maximum(src[window], tgt[window]))
            cost = widest * np.arange(1, len(widest) + 1)
            start += max(1, int(np.searchsorted(cost, size, side="right")))
        return starts


def collate(pairs: Pairs, indices: Indices | Sequence[int], least: int = 1) -> Batch:
    """Tensors of the pairs in the order of `indices`, padded to the longest or to `least`. B = 0 gives tensors of shape [0, least]."""
    chosen = np.asarray(indices, dtype=np.int64)
    src = _padded(pairs.src, pairs.src_offsets, chosen, least)
    tgt_out = _padded(pairs.tgt, pairs.tgt_offsets, chosen, least)
    tgt_in = np.empty_like(tgt_out)
    tgt_in[:, 0] = BOS
    tgt_in[:, 1:] = np.where(tgt_out[:, :-1] == EOS, PAD, tgt_out[:, :-1])
    return Batch(torch.from_numpy(src), torch.from_numpy(tgt_in), torch.from_numpy(tgt_out))


def _padded(flat: npt.NDArray[Any], offsets: npt.NDArray[np.int64], chosen: Indices, least: int) -> npt.NDArray[np.int64]:
    """Pads sentences to [B, longest + 1], at least to [B, least]: each with its EOS, then PAD."""
    starts = offsets[chosen]
    lengths = offsets[chosen + 1] - starts
    out = np.full((len(chosen), max(int(lengths.max(initial=0)) + 1, least)), PAD, dtype=np.int64)
    rows = np.repeat(np.arange(len(chosen)), lengths)
    columns = np.arange(len(rows)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    out[rows, columns] = flat[columns + np.repeat(starts, lengths)]
    out[np.arange(len(chosen)), lengths] = EOS
    return out


def _generator(seed: int, epoch: int) -> np.random.Generator:
    digest = hashlib.sha256(f"batches/{seed}/{epoch}".encode()).digest()
    return np.random.Generator(np.random.PCG64(int.from_bytes(digest[:16], "big")))
