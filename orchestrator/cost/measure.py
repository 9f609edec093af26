"""A probe: times a few updates of the real training loop at a row's shapes, validation batches, a checkpoint and decoded batches.

On a CPU with one thread, seconds are CPU time, so that other load on the machine does not count.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from models.flops import Tokens
from models.inference import prepared as packed
from models.transformer import Transformer
from orchestrator import cpu
from orchestrator.cost.flops import work
from orchestrator.cost.lengths import expected_steps, tokens_of
from orchestrator.data.batching import PAD
from orchestrator.data.prepare import prepare
from orchestrator.data.store import Prepared
from orchestrator.decoding.beam import EOS, beam_search
from orchestrator.decoding.translate import batches, pad
from orchestrator.errors import StopTraining
from orchestrator.ledger.run_files import Store
from orchestrator.specs.schema import RunSpec, Schedule
from orchestrator.training.batches import Update
from orchestrator.training.objective import token_nll
from orchestrator.training.runtime import Runtime, best_device
from orchestrator.training.trainer import Trainer

WARM_UP, MOST_UPDATES, SECONDS = 3, 40, 4.0
VALID_BATCHES, DECODE_BATCHES = 3, 3
NEVER = 2**31 - 1


def measure(spec: RunSpec, data_dir: Path | None, cache_dir: Path, folder: Path) -> dict[str, Any]:
    """Returns `probes.MEASURES`, checkpoint_seconds, start_seconds, memory (peak bytes of the process or the device) and others (other
    processes per core meanwhile).

    `folder`: where a checkpoint is written and removed again.
    """
    prepared = prepare(spec.data, data_dir, cache_dir)
    endless = {"max_steps": NEVER, "max_epochs": None, "patience": None, "validate_every": NEVER, "checkpoint_every": NEVER}
    train = spec.train.model_copy(update=endless | {"snapshots": 0, "log_gradient_norms": 0})
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".probe-") as place:
        started = time.perf_counter()
        bare = spec.model_copy(update={"train": train, "init_from": None})
        training = _Timed(bare, Runtime(device=best_device()), [], prepared, Store(Path(place), "0" * 64))
        found = {"start_seconds": time.perf_counter() - started}
        training.train()
        found |= training.measured()
        started = time.perf_counter()
        training.save_checkpoint({}, force=True)
        found["checkpoint_seconds"] = time.perf_counter() - started
    found |= _validation(training, spec)
    found["memory"] = _memory()
    del training.optimizer
    return found | _decoding(training.model.eval(), prepared, spec, time.process_time if _one_thread(training) else time.perf_counter)


class _Timed(Trainer):
    """A training that ends after some timed updates.

    The first updates are not timed, because they include data order, allocation and compilation. The seconds are those of the median rate,
    because new shapes and other load make single updates slow.
    """

    count = 0
    wall = 0.0

    def train_step(self, update: Update, schedule: Schedule) -> None:
        if self.count == 0:
            self.work, self.done = work(self.spec.model, *_sizes(self.model)), list[tuple[float, float]]()
            self.began, self.used = time.perf_counter(), time.process_time()
        before, started, cpu_started = self.progress.seconds, _now(self), time.process_time()
        super().train_step(update, schedule)
        took = _now(self) - started
        self.count += 1
        if self.count > WARM_UP:
            self.wall += took
            share = min(1.0, (time.process_time() - cpu_started) / took) if _one_thread(self) else 1.0
            flops = sum(self.work.training(_tokens(batch.src, batch.tgt_out)) for batch in update.micro_batches)
            self.done.append((flops, share * (self.progress.seconds - before) if self.runtime.device.type == "cpu" else took))
        if self.count >= WARM_UP + MOST_UPDATES or (self.wall >= SECONDS and self.count >= WARM_UP + 5):
            raise StopTraining("stopped", "measured")

    def measured(self) -> dict[str, Any]:
        """Number, FLOP and seconds of the timed updates, and the load by other processes."""
        busy = round(others(time.perf_counter() - self.began, time.process_time() - self.used, _one_thread(self)), 2)
        flops = sum(f for f, _ in self.done)
        rate = statistics.median(s / f for f, s in self.done)
        return {"updates": len(self.done), "train_flops": flops, "train_seconds": flops * rate, "others": busy}


def _validation(training: Trainer, spec: RunSpec) -> dict[str, float]:
    of_model, flops, model = work(spec.model, *_sizes(training.model)), 0.0, training.model.eval()
    clock = time.process_time if _one_thread(training) else partial(_now, training)
    started = clock()
    for _, batch in training.validator.batches[:VALID_BATCHES]:
        token_nll(model, *(t.to(training.runtime.device) for t in (batch.src, batch.tgt_in, batch.tgt_out)))
        flops += of_model.forward(_tokens(batch.src, batch.tgt_out))
    return {"valid_flops": flops, "valid_seconds": clock() - started}


@torch.inference_mode()
def _decoding(model: Transformer, prepared: Prepared, spec: RunSpec, clock: Callable[[], float]) -> dict[str, float]:
    """Times batches of the test set from long to short; the untrained model is forced to end where the references do."""
    search, pairs = spec.search, prepared.pairs(spec.score.test)
    penalty = search.length_penalty.model_copy(update={"alpha": 0.6, "candidates": None})
    search = search.model_copy(update={"length_penalty": penalty}) if search.length_penalty.alpha == "tuned" else search
    cpu.use(spec.train.threads)
    ends = _Ends(model)
    groups = batches(pairs.src_lengths.tolist())
    chosen = [groups[round(i * (len(groups) - 1) / max(1, DECODE_BATCHES - 1))] for i in range(min(DECODE_BATCHES, len(groups)))]
    row_steps, seconds = 0, 0.0
    with packed(model, search.precision):
        for warm, indices in [(True, chosen[-1]), *((False, indices) for indices in chosen)]:
            ends.after = expected_steps(pairs, indices, spec)
            source = pad([pairs[i][0] for i in indices]).to(next(model.parameters()).device)
            started = clock()
            beam_search(model, source, search)
            if not warm:
                seconds += clock() - started
                row_steps += len(indices) * search.beam_size * ends.steps
    return {"row_steps": row_steps, "decode_seconds": seconds, "decode_weights": work(spec.model, *_sizes(model)).tgt}


class _Ends:
    """Forces a model to end every hypothesis after exactly `after` steps."""

    def __init__(self, model: Transformer) -> None:
        self.after = self.steps = 0
        encode, logits = model.encode, model.logits

        def encoded(*args: Any, **kwargs: Any) -> Any:
            self.steps = 0
            return encode(*args, **kwargs)

        def ended(*args: Any, **kwargs: Any) -> Tensor:
            self.steps += 1
            found = logits(*args, **kwargs).clone()
            found[..., EOS] = 1e4 if self.steps >= self.after else -1e4
            return found

        model.encode, model.logits = encoded, ended  # type: ignore[method-assign]


def _sizes(model: Transformer) -> tuple[int, int]:
    return model.src_embedding.words.num_embeddings, model.output.out_features


def _tokens(src: Tensor, tgt: Tensor) -> Tokens:
    return tokens_of((src != PAD).sum(1).numpy(), (tgt != PAD).sum(1).numpy())


def _now(training: Trainer) -> float:
    if training.runtime.device.type == "cuda":
        torch.cuda.synchronize(training.runtime.device)
    return time.perf_counter()


def _one_thread(training: Trainer) -> bool:
    return training.runtime.device.type == "cpu" and training.spec.train.threads == 1


def others(wall: float, used: float, one_thread: bool) -> float:
    """Other processes that competed for each core, from the CPU time of the single thread, else from the load of the machine."""
    if one_thread:
        return max(0.0, wall / max(used, 1e-9) - 1.0)
    return max(0.0, os.getloadavg()[0] / (os.cpu_count() or 1) - 1.0)


def _memory() -> int:
    if torch.cuda.is_available():
        return int(torch.cuda.max_memory_reserved())
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def main() -> None:
    """Runs one probe in its own process, so that its peak memory is its own. JSON request on stdin, JSON measures on stdout."""
    request = json.load(sys.stdin)
    answer = os.dup(1)
    os.dup2(2, 1)  # output of libraries must not mix with the answer
    data_dir = None if request["data_dir"] is None else Path(request["data_dir"])
    measures = measure(RunSpec.model_validate(request["spec"]), data_dir, Path(request["cache_dir"]), Path(request["folder"]))
    with os.fdopen(answer, "w") as out:
        json.dump(measures, out)


if __name__ == "__main__":
    main()
