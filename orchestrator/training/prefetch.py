"""Batches made ready ahead of a GPU: shapes rounded up so that few differ, in pinned memory, by a thread beside the loop.

Padding added here changes no number of the training but dropout's choice of masks; counts of real tokens stay the batch's own.
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

DEPTH = 4  # updates ready at a time
MULTIPLE = 8  # rows and lengths are rounded up to it: tensor cores want it, and compiled code sees fewer shapes


def ahead(updates: Iterator[Update], *, depth: int = DEPTH, multiple: int = MULTIPLE, pin: bool = True) -> Iterator[Update]:
    """The same updates in the same order, `depth` of them made while the loop computes. An error of theirs is raised in its place."""
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
                put(replace(update, micro=[_pinned(bucketed(batch, multiple), pin) for batch in update.micro]))
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


def bucketed(batch: Batch, multiple: int) -> Batch:
    """The batch with rows and both lengths rounded up to a multiple; added positions are PAD."""

    def grown(ids: Tensor) -> Tensor:
        rows, length = ids.shape
        return F.pad(ids, (0, -length % multiple, 0, -rows % multiple), value=PAD)

    src, tgt_in, tgt_out = grown(batch.src), grown(batch.tgt_in), grown(batch.tgt_out)
    real = batch.num_src_tokens + batch.num_tgt_tokens
    return replace(batch, src=src, tgt_in=tgt_in, tgt_out=tgt_out, num_padding=src.numel() + tgt_out.numel() - real)


def _pinned(batch: Batch, pin: bool) -> Batch:
    if not (pin and torch.cuda.is_available()):
        return batch
    return replace(batch, src=batch.src.pin_memory(), tgt_in=batch.tgt_in.pin_memory(), tgt_out=batch.tgt_out.pin_memory())
