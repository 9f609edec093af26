"""Code shared by the workers: threads, precision, length-bucketed batches, rounds. Uses only torch and the standard library."""

import contextlib
import ctypes
import json
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

PAD, BOS, EOS = 0, 2, 3
FORBID = -1e4
"""Bias that disables EOS in decoding benchmarks, so that all outputs have the same length."""

Pair = tuple[list[int], list[int]]


class Prepared(NamedTuple):
    """One batch in its toolkit's own format. Counts include EOS. padded: positions of source and target, including padding."""

    payload: Any
    src_tokens: int
    tgt_tokens: int
    padded: int


def read_text(job: dict[str, Any]) -> list[Pair]:
    return [(src, tgt) for src, tgt in json.loads(Path(job["text"]).read_text())]


def set_up(job: dict[str, Any]) -> None:
    torch.set_num_threads(job["threads"])
    torch.manual_seed(job["seed"])
    os.environ["TOKENIZERS_PARALLELISM"] = "false"


@contextlib.contextmanager
def arithmetic(precision: str, matmul: str):
    """Sets the arithmetic of a block. precision bf16: autocast. matmul onednn: fp32 products with oneDNN instead of MKL.

    torch's switch for oneDNN is called bf16, but the driver has checked (cpu.matmul_path) that the products are fp32.
    """
    torch.backends.mkldnn.matmul.fp32_precision = "bf16" if matmul == "onednn" else "none"
    with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
        yield


def bucketed(pairs: Sequence[Pair], batch_tokens: int) -> list[list[int]]:
    """Sorts indices by (target, source) length and splits them so that rows times the longest side with EOS is at most `batch_tokens`."""
    order = sorted(range(len(pairs)), key=lambda i: (len(pairs[i][1]), len(pairs[i][0])))
    groups: list[list[int]] = []
    longest = 0
    for i in order:
        longest = max(longest, *(len(side) + 1 for side in pairs[i]))
        if not groups or (len(groups[-1]) + 1) * longest > batch_tokens:
            groups.append([])
            longest = max(len(side) + 1 for side in pairs[i])
        groups[-1].append(i)
    return groups


def spread(batches: Sequence[Any], count: int, length: Callable[[Any], float]) -> list[Any]:
    """Returns `count` batches at equally spaced quantiles of `length`."""
    ordered = sorted(batches, key=length)
    return [ordered[int((i + 0.5) * len(ordered) / count)] for i in range(count)]


def tensors(pairs: Sequence[Pair], indices: Sequence[int]) -> Prepared:
    """Returns a batch of padded (src, tgt_in, tgt_out); tgt_in starts with BOS."""
    chosen = [pairs[i] for i in indices]
    src = padded([[*s, EOS] for s, _ in chosen])
    tgt_out = padded([[*t, EOS] for _, t in chosen])
    tgt_in = padded([[BOS, *t] for _, t in chosen])
    return Prepared((src, tgt_in, tgt_out), int((src != PAD).sum()), int((tgt_out != PAD).sum()), src.numel() + tgt_out.numel())


def padded(rows: Sequence[Sequence[int]], pad: int = PAD) -> torch.Tensor:
    width = max(map(len, rows))
    return torch.tensor([[*row, *([pad] * (width - len(row)))] for row in rows])


def target_length(batch: Prepared) -> float:
    return batch.tgt_tokens / batch.payload[2].shape[0]


def padding_share(batches: Sequence[Prepared]) -> float:
    return round(1 - sum(b.src_tokens + b.tgt_tokens for b in batches) / sum(b.padded for b in batches), 4)


def parameters(model: torch.nn.Module) -> int:
    return sum(p.numel() for p in model.parameters() if p.requires_grad)


class Training:
    """Rounds of training on a fixed sample of `batches`. `update(payload)`, forward to optimizer step, returns the mean loss per token.

    The sample is spread over `length(batch)`, so that all toolkits train on the same mix of lengths; `padding_share` is over all batches.
    """

    def __init__(
        self,
        job: dict[str, Any],
        batches: Sequence[Prepared],
        update: Callable[[Any], float],
        length: Callable[[Prepared], float] = target_length,
        **about: Any,
    ) -> None:
        self.batches, self.update = spread(batches, job["updates"], length), update
        self.trim = job.get("trim", False)
        self.warm: set[tuple[Any, ...]] = set()
        self.about = {
            "batch_target_tokens": [b.tgt_tokens for b in self.batches],
            "batch_source_tokens": [b.src_tokens for b in self.batches],
            "padding_share": padding_share(batches),
            "padding_share_timed": padding_share(self.batches),
        } | about

    def arithmetic(self, precision: str = "fp32", matmul: str = "default", **_: Any) -> contextlib.AbstractContextManager[None]:
        return arithmetic(precision, matmul)

    def round(self, **options: Any) -> dict[str, Any]:
        """Trains on every batch once, after an untimed warm-up update before the first round with these options.

        If the job sets `trim`, memory is returned to the system after each round, and every round has a warm-up.
        """
        with self.arithmetic(**options):
            if (key := tuple(sorted(options.items()))) not in self.warm or self.trim:
                self.warm.add(key)
                self.update(self.batches[0].payload)
            seconds, losses = 0.0, []
            for batch in self.batches:
                started = time.perf_counter()
                losses.append(self.update(batch.payload))
                seconds += time.perf_counter() - started
        tokens = [b.tgt_tokens for b in self.batches]
        if self.trim:
            ctypes.CDLL(None).malloc_trim(0)
        mean = sum(loss * n for loss, n in zip(losses, tokens, strict=True)) / sum(tokens)
        return {"seconds": seconds, "tokens": sum(tokens), "loss": mean}


class Decoding:
    """Rounds of decoding of the same sources, longest first. `translate(sources, beam, **options)` returns the outputs of a batch."""

    def __init__(self, job: dict[str, Any], translate: Callable[..., list[list[Any]]], every: int = 1, **about: Any) -> None:
        sources = sorted((src for src, _ in read_text(job)), key=len, reverse=True)
        self.sources, self.translate, self.job = sources[every // 2 :: every], translate, job
        self.warm: set[tuple[Any, ...]] = set()
        self.about = {"sentences": len(self.sources)} | about

    def arithmetic(self, precision: str = "fp32", matmul: str = "default", **_: Any) -> contextlib.AbstractContextManager[None]:
        return arithmetic(precision, matmul)

    def round(self, *, beam: int, batch: str = "32", **options: Any) -> dict[str, Any]:
        """Translates all sources. batch: sentences per batch, or `own` to pass all sources at once, to be batched by the toolkit."""
        size = len(self.sources) if batch == "own" else int(batch)
        groups = [self.sources[i : i + size] for i in range(0, len(self.sources), size)]
        with self.arithmetic(**options), torch.inference_mode():
            if (key := (beam, batch, *sorted(options.items()))) not in self.warm:
                self.warm.add(key)
                self.translate(self.sources[-8:], beam, **options)
            # CPU seconds of all threads are disturbed less by other processes; they say nothing where threads share the work
            clock = time.process_time if self.job.get("clock") == "cpu" else time.perf_counter
            started = clock()
            outputs = [out for group in groups for out in self.translate(group, beam, **options)]
            seconds = clock() - started
        lengths = [len(out) for out in outputs]
        return {
            "seconds": seconds,
            "sentences": len(outputs),
            "tokens": sum(lengths),
            "shortest": min(lengths),
            "longest": max(lengths),
        }
