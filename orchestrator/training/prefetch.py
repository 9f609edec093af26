"""A thread prepares batches for a GPU: in pinned memory, with shapes rounded up so that few differ.

This padding changes only dropout's masks; token counts stay those of the batch.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional as F

from orchestrator.data.batching import Batch
from orchestrator.data.subword import PAD
from orchestrator.training.batches import Update

DEPTH = 4  # prefetched updates
MULTIPLE = 8  # of rows and lengths: for tensor cores, and for fewer shapes in compiled code


def prefetch(updates: Iterator[Update], *, depth: int = DEPTH, multiple: int = MULTIPLE, pin: bool = True) -> Iterator[Update]:
    """The same updates in the same order, up to `depth` of them prepared in advance. An exception in the thread is raised here."""
    ready: queue.Queue[Update | Exception | None] = queue.Queue(depth)
    stopped = threading.Event()

    def put(item: Update | Exception | None) -> None:
        while not stopped.is_set():
            try:
                ready.put(item, timeout=0.1)
                return
            except queue.Full:
                continue

    def work() -> None:
        try:
            for update in updates:
                put(replace(update, micro_batches=[_pinned(pad_to_multiple(batch, multiple), pin) for batch in update.micro_batches]))
                if stopped.is_set():
                    return
            put(None)
        except Exception as error:
            put(error)

    thread = threading.Thread(target=work, name="batches", daemon=True)
    thread.start()
    try:
        while (item := ready.get()) is not None:
            if isinstance(item, Exception):
                raise item
            yield item
    finally:
        stopped.set()
        thread.join()


def pad_to_multiple(batch: Batch, multiple: int) -> Batch:
    """Rounds the rows and both lengths up to a multiple with PAD."""

    def padded(ids: Tensor) -> Tensor:
        rows, length = ids.shape
        return F.pad(ids, (0, -length % multiple, 0, -rows % multiple), value=PAD)

    src, tgt_in, tgt_out = padded(batch.src), padded(batch.tgt_in), padded(batch.tgt_out)
    real = batch.num_src_tokens + batch.num_tgt_tokens
    return replace(batch, src=src, tgt_in=tgt_in, tgt_out=tgt_out, num_padding=src.numel() + tgt_out.numel() - real)


def _pinned(batch: Batch, pin: bool) -> Batch:
    if not (pin and torch.cuda.is_available()):
        return batch
    return replace(batch, src=batch.src.pin_memory(), tgt_in=batch.tgt_in.pin_memory(), tgt_out=batch.tgt_out.pin_memory())
