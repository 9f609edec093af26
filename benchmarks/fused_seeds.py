"""S seeds of one row as one fused job, as S processes side by side, and one after the other: target tokens per second of all together.

    python benchmarks/fused_seeds.py [--sizes micro,tiny,small,base] [--runs 1,3,5] [--tokens 400] [--cores 1] [--json]

The product's own loop (data, dropout, loss, clipping, Adam) on the text of `sizes.py`, from the same updates in each of the three ways.
All three share the same cores: the fused job has that many threads, a process one. A cell is the best of its repeats; the spread is the
lowest over the highest. On a machine with a CUDA device the same is measured there; without one that column says so.
`padding`: positions behind a run's last one among all packed ones; `rectangular`: what it would be if all batches were padded to common
sentences and lengths. `pays`: fused over the better of the other two.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]
from machine import describe  # noqa: E402
from sizes import SIZES, Size, text  # noqa: E402

from orchestrator.data.store import Pairs  # noqa: E402
from orchestrator.fused import Job  # noqa: E402
from orchestrator.runtime import Runtime  # noqa: E402
from orchestrator.spec import RunSpec  # noqa: E402
from orchestrator.store import Store  # noqa: E402
from orchestrator.train import Training  # noqa: E402

ALL = {"micro": Size(32, 128, 4, 2, 500)} | SIZES
UPDATES = {"micro": 16, "tiny": 12, "small": 2, "base": 1}
WARM = {"micro": 48, "tiny": 48, "small": 2, "base": 1}  # matrix shapes are compiled when they first occur
REPEATS = {"micro": 5, "tiny": 5, "small": 3, "base": 2}
WAYS = ("alone", "processes", "fused")
NO_CUDA = "not measured: no CUDA device"


class Text:
    """Enough of prepared data for a training."""

    def __init__(self, vocab: int) -> None:
        self.src_size = self.tgt_size = vocab
        self.pairs_of = {"train": _pairs(text(vocab, 3000)), "valid": _pairs(text(vocab, 4, seed=2))}

    def pairs(self, split: str) -> Pairs:
        return self.pairs_of[split]


def _pairs(pairs: list[tuple[list[int], list[int]]]) -> Pairs:
    sides = []
    for side in zip(*pairs, strict=True):
        flat = np.array(list(itertools.chain(*side)), dtype=np.uint16)
        sides += [flat, np.concatenate(([0], np.cumsum([len(s) for s in side]))).astype(np.int64)]
    return Pairs(*sides)


class Run:
    """One seed's training, an update at a time."""

    def __init__(self, size: Size, tokens: int, seed: int, threads: int, device: str, data: Text) -> None:
        spec = RunSpec.model_validate(
            {
                "data": {"corpus": "toy-smoke"},
                "batch": {"size": tokens},
                "model": size.model(),
                "optim": {"label_smoothing": 0.1, "clip_norm": 1.0},
                "train": {"max_steps": 10**6, "validate_every": 10**6, "checkpoint_every": 10**6, "threads": threads},
                "seed": seed,
            }
        )
        store = Store(Path(tempfile.mkdtemp(prefix="fused-seeds-")), "0" * 64)
        self.training = Training(spec, Runtime(device=torch.device(device)), [], data, store, frozenset(), None)  # type: ignore[arg-type]
        self.turns = self.training.turns()
        self.turn = next(self.turns)

    def alone(self, updates: int) -> int:
        tokens = 0
        for _ in range(updates):
            tokens += self.turn.update.tgt_tokens
            self.turn = self.turns.send(self.training.gradients(self.turn.update))
        return tokens


class FusedRuns:
    def __init__(self, runs: list[Run]) -> None:
        self.runs, self.job = runs, Job([run.training for run in runs])
        self.real = self.packed = self.rectangle = 0

    def update(self, updates: int) -> int:
        tokens = 0
        for _ in range(updates):
            turns = [run.turn for run in self.runs]
            tokens += sum(turn.update.tgt_tokens for turn in turns)
            self._count([turn.update.micro[0] for turn in turns])
            for run, log in zip(self.runs, self.job.gradients(turns), strict=True):
                run.turn = run.turns.send(log)
        return tokens

    def _count(self, batches: list[Any]) -> None:
        for name in ("src", "tgt_in"):
            shapes = [getattr(batch, name).shape for batch in batches]
            self.real += sum(b * t for b, t in shapes)
            self.packed += len(shapes) * max(b * t for b, t in shapes)
            self.rectangle += len(shapes) * max(b for b, _ in shapes) * max(t for _, t in shapes)


class Processes:
    """S processes that start an update at the same word."""

    def __init__(self, size: str, tokens: int, runs: int, device: str) -> None:
        command = [sys.executable, __file__, "--worker", size, "--tokens", str(tokens), "--device", device]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.workers = [subprocess.Popen([*command, "--seed", str(seed + 1)], **pipes) for seed in range(runs)]  # type: ignore[call-overload]
        for worker in self.workers:
            if worker.stdout.readline().strip() != "ready":
                raise SystemExit("a worker process did not start")

    def update(self, updates: int) -> int:
        for worker in self.workers:
            worker.stdin.write(f"{updates}\n")
            worker.stdin.flush()
        return sum(int(worker.stdout.readline()) for worker in self.workers)

    def close(self) -> None:
        for worker in self.workers:
            worker.stdin.close()
            worker.wait()


def worker(args: argparse.Namespace) -> None:
    size = ALL[args.worker]
    run = Run(size, args.tokens, args.seed, 1, args.device, Text(size.vocab))
    print("ready", flush=True)
    for line in sys.stdin:
        print(run.alone(int(line)), flush=True)
        _wait(args.device)


def _wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def cell(name: str, runs: int, args: argparse.Namespace, device: str) -> dict[str, Any]:
    """Tokens per second of the three ways, in turns."""
    size, data = ALL[name], Text(ALL[name].vocab)
    make = [Run(size, args.tokens, seed + 1, 1, device, data) for seed in range(runs)]
    fused = FusedRuns([Run(size, args.tokens, seed + 1, args.cores, device, data) for seed in range(runs)])
    processes = Processes(name, args.tokens, runs, device)
    ways: dict[str, Callable[[int], int]] = {
        "alone": lambda n: sum(run.alone(n) for run in make),
        "processes": processes.update,
        "fused": fused.update,
    }
    updates, rates = args.updates or UPDATES[name], {way: [] for way in WAYS}
    for repeat in range(1 + (args.repeats or REPEATS[name])):  # the first warms up
        count = updates if repeat else max(updates, WARM[name])
        for way, go in ways.items():
            torch.set_num_threads(args.cores if way == "fused" else 1)
            started = time.perf_counter()
            tokens = go(count)
            _wait(device)
            if repeat:
                rates[way].append(tokens / (time.perf_counter() - started))
    processes.close()
    best = {way: max(values) for way, values in rates.items()}
    return {
        "size": name,
        "runs": runs,
        "tokens_per_second": {way: round(rate, 1) for way, rate in best.items()},
        "spread": {way: round(min(values) / max(values), 2) for way, values in rates.items()},
        "fused_over_processes": round(best["fused"] / best["processes"], 3),
        "fused_over_alone": round(best["fused"] / best["alone"], 3),
        "pays": best["fused"] > max(best["alone"], best["processes"]),
        "padding": round(1 - fused.real / fused.packed, 3),
        "rectangular": round(1 - fused.real / fused.rectangle, 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="micro,tiny,small,base")
    parser.add_argument("--runs", default="1,3,5")
    parser.add_argument("--tokens", type=int, default=400, help="of one update of one run; padded, the larger side")
    parser.add_argument("--cores", type=int, default=1)
    parser.add_argument("--updates", type=int, help="in one repeat (default: by size)")
    parser.add_argument("--repeats", type=int, help="(default: by size)")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, default=1, help=argparse.SUPPRESS)
    parser.add_argument("--device", default="cpu", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if hasattr(os, "sched_setaffinity") and not args.worker:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-args.cores :])
    if args.worker:
        worker(args)
        return
    result: dict[str, Any] = {"benchmark": "fused_seeds", "cores": args.cores, "batch_tokens": args.tokens, "machine": describe()}
    for device in ("cpu", "cuda"):
        if device == "cuda" and not torch.cuda.is_available():
            result[device] = NO_CUDA
            continue
        result[device] = []
        for name, runs in itertools.product(args.sizes.split(","), map(int, args.runs.split(","))):
            result[device].append(cell(name, runs, args, device))
            if not args.json:
                show(device, result[device][-1], first=len(result[device]) == 1)
    if args.json:
        print(json.dumps(result))
        return
    for device in ("cpu", "cuda"):
        rows = result[device]
        print(f"{device}: {rows if isinstance(rows, str) else summary(rows)}")


def show(device: str, row: dict[str, Any], *, first: bool) -> None:
    if first:
        print(f"{device}: target tokens/s of all runs (spread over repeats); ratios of fused; padding packed and rectangular")
        print(f"{'size':6} {'S':>2} {'alone':>16} {'processes':>16} {'fused':>16} {'/alone':>7} {'/procs':>7} {'pad':>6} {'rect':>6}")
    rates = " ".join(f"{row['tokens_per_second'][way]:9.1f} ({row['spread'][way]:.2f})" for way in WAYS)
    ratios = f"{row['fused_over_alone']:7.2f} {row['fused_over_processes']:7.2f} {row['padding']:6.1%} {row['rectangular']:6.1%}"
    print(f"{row['size']:6} {row['runs']:2} {rates} {ratios}", flush=True)


def summary(rows: list[dict[str, Any]]) -> str:
    pays = [f"{row['size']} x {row['runs']}" for row in rows if row["pays"]]
    stops = [f"{row['size']} x {row['runs']}" for row in rows if not row["pays"]]
    return f"fusing pays for {', '.join(pays) or 'nothing'}; not for {', '.join(stops) or 'nothing'}"


if __name__ == "__main__":
    main()
