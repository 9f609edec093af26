"""The micro-batches of each optimizer step, in order.

The order is a function of seed, epoch and batch size. N workers share every micro-batch, so 1 and N workers see the same updates.
"""

import math
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
from torch import Tensor
from torch.nn import functional as F

from models.initialise import stream_seed
from models.layout import layouts, shape_of, shaped
from orchestrator.data.batching import Batch, Batches, collate
from orchestrator.data.store import Pairs
from orchestrator.data.subword import PAD
from orchestrator.specs.schema import BatchSpec, TrainSpec
from orchestrator.training.state import Progress

DEPTH = 4  # prefetched updates
MULTIPLE = 8  # on a GPU, rows and lengths are padded to a multiple
PINNING = threading.Lock()  # held while memory is pinned: pinning must not happen during the capture of a graph


@dataclass(frozen=True)
class Update:
    """One optimizer step: this worker's micro-batches, and token counts over all workers. idle: True for a micro-batch of which this worker
    has no share. It then holds one sentence that must not count. epoch, index: start of the next update."""

    micro_batches: list[Batch]
    idle: list[bool]
    src_tokens: int
    tgt_tokens: int
    padded_tokens: int
    epoch: int
    index: int


class UpdateLoader:
    """Yields updates over one split without end, from any position."""

    def __init__(self, pairs: Pairs, batch: BatchSpec, seed: int, rank: int = 0, world_size: int = 1) -> None:
        self.pairs, self.batch, self.rank, self.world_size = pairs, batch, rank, world_size
        self.batches = Batches(pairs, batch, stream_seed(seed, "data"))

    def updates_of(self, first: int, end: int) -> int:
        """Returns the number of updates of the epochs `first` to `end` - 1. An estimate, because each epoch forms its batches anew."""
        return (end - first) * -(-self.batches.count // self.batch.accumulate)

    def updates(self, epoch: int, index: int) -> Iterator[Update]:
        """Yields updates from micro-batch `index` of `epoch` on, without end."""
        while True:
            order = self.batches.epoch(epoch)
            while index < len(order):
                group = order[index : index + self.batch.accumulate]
                index += len(group)
                ends = index >= len(order)
                yield self._update(group, *((epoch + 1, 0) if ends else (epoch, index)))
            epoch, index = epoch + 1, 0

    def _update(self, group: list[np.ndarray], epoch: int, index: int) -> Update:
        everyone, src, tgt = np.concatenate(group), self.batches.src, self.batches.tgt
        shares = [indices[self.rank :: self.world_size] for indices in group]
        idle, least = [len(share) == 0 for share in shares], self.batch.pad_to
        micro = [collate(self.pairs, own if len(own) else indices[:1], least) for own, indices in zip(shares, group, strict=True)]
        padded = sum(len(g) * (max(int(src[g].max()), least) + max(int(tgt[g].max()), least)) for g in group)
        return Update(micro, idle, int(src[everyone].sum()), int(tgt[everyone].sum()), padded, epoch, index)


def total_steps(loader: UpdateLoader, train: TrainSpec, progress: Progress) -> int:
    """Returns the number of updates of the whole training. An estimate if its length is given in epochs."""
    done = progress.step - progress.index // loader.batch.accumulate  # before the current epoch
    epochs = math.inf if train.max_epochs is None else done + loader.updates_of(progress.epoch, train.max_epochs)
    return int(min(epochs, math.inf if train.max_steps is None else train.max_steps))


def prefetch(updates: Iterator[Update], form: Callable[[Batch], Batch]) -> Iterator[Update]:
    """Yields the updates for a GPU. A thread prepares DEPTH of them in advance, in pinned memory. `form` changes only dropout masks."""

    def prepared() -> Update | None:
        if (update := next(updates, None)) is None:
            return None
        batches = [form(batch) for batch in update.micro_batches]
        with PINNING:
            return replace(update, micro_batches=[batch.map(Tensor.pin_memory) for batch in batches])

    thread = ThreadPoolExecutor(1, "batches")
    try:
        waiting = deque(thread.submit(prepared) for _ in range(DEPTH))
        while (update := waiting.popleft().result()) is not None:
            waiting.append(thread.submit(prepared))
            yield update
    finally:
        thread.shutdown(cancel_futures=True)


def rounded(batch: Batch, most: int = sys.maxsize) -> Batch:
    """Pads rows and both lengths to a multiple: for tensor cores, and for fewer shapes in compiled code. most: of positions."""

    def pad(ids: Tensor) -> Tensor:
        rows, length = ids.shape
        return F.pad(ids, (0, min(-length % MULTIPLE, max(0, most - length)), 0, -rows % MULTIPLE), value=PAD)

    return batch.map(pad)


def packed(batch: Batch) -> Batch:
    """Pads the batch as `rounded` does and adds layouts of the real positions."""
    batch = rounded(batch)
    return replace(batch, layouts=layouts(batch.src, batch.tgt_in))


def captured(batch: Batch) -> Batch:
    """Pads the batch to a shape that many batches share, so that captured graphs can replay its kernels."""
    shape = shape_of(batch.src, batch.tgt_in)
    (src, tgt_in, tgt_out), both = shaped(shape, batch.src, batch.tgt_in, batch.tgt_out)
    return Batch(src, tgt_in, tgt_out, both, shape)
