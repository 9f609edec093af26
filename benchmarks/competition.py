"""Code shared by the training and decoding benchmarks: command line, job description, measurement, machine figures."""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).resolve().parent / "peers"), str(Path(__file__).resolve().parents[1])]

import torch  # noqa: E402
from contenders import PEERS, Setting  # noqa: E402
from driver import Outcome, Row, compete  # noqa: E402
from environments import folder  # noqa: E402
from machine import MatrixRates, describe, is_amd, mkl_remedy, rates_text  # noqa: E402
from report import progress_bar  # noqa: E402
from sizes import SIZES, Pair, text  # noqa: E402

from orchestrator import cpu  # noqa: E402

LEARNING_RATE, SMOOTHING, DROPOUT, BATCH_TOKENS, SEED = 5e-4, 0.1, 0.1, 3000, 1


def parser(description: str) -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--size", choices=list(SIZES), default="small")
    made.add_argument(
        "--peers", nargs="*", metavar="NAME", help=f"against toolkits in environments of their own: {', '.join(PEERS)}; no NAME: all"
    )
    made.add_argument("--rounds", type=int, default=3)
    made.add_argument("--threads", type=int, default=1)
    made.add_argument("--environments", metavar="DIR", help="of the peers; default $NMT_PEERS or .peers")
    made.add_argument("--minutes", type=float, default=18.0, help="no round starts that would end after these")
    made.add_argument("--json", action="store_true", help="one JSON object on stdout and nothing else")
    return made


def peers(args: argparse.Namespace) -> list[str]:
    unknown = sorted(set(args.peers or ()) - set(PEERS))
    if unknown:
        print(f"error: no such peer: {', '.join(unknown)}; there are {', '.join(PEERS)}", file=sys.stderr)
        raise SystemExit(2)
    return [] if args.peers is None else args.peers or list(PEERS)


class Ground:
    """The machine during one run: settings for all contenders, and the matrix rates measured between rounds."""

    def __init__(self, args: argparse.Namespace, scratch: Path) -> None:
        torch.set_num_threads(args.threads)
        remedy, why_not = mkl_remedy(scratch) if is_amd() else ({}, "not an AMD CPU")
        self.notes = {"mkl": why_not} if why_not else {}
        self.path = cpu.matmul_path()
        self.setting = Setting(args.threads, folder(args.environments), remedy, self.path == "onednn")
        self.rates = MatrixRates()

    def peak(self, precision: str) -> float:
        """Returns the GFLOP/s of a precision: what MFU is relative to, and what a row prints beside its ratios."""
        return self.rates.peak(precision, onednn=self.path == "onednn")

    def about(self) -> dict[str, Any]:
        return {"matmul_gflops": self.rates.summary(), "matmul_path": self.path} | self.notes


def run(
    args: argparse.Namespace, task: str, sentences: int, make_rows: Callable[[Setting], Sequence[Row]], scratch: Path, **job: Any
) -> tuple[list[Outcome], Ground, list[Pair], dict[str, Any]]:
    """Runs all contenders and returns (outcomes, machine, text, description of the run)."""
    started = time.time()
    size = SIZES[args.size]
    pairs = text(size.vocab, sentences, SEED)
    (scratch / "text.json").write_text(json.dumps(pairs))
    ground = Ground(args, scratch)
    rows = make_rows(ground.setting)
    shared = job_of(args.size, args.threads, task, scratch / "text.json", sentences) | job
    bar, step = progress_bar(len({row.program.name for row in rows}) + args.rounds * len(rows))
    with bar:
        outcomes = compete(rows, shared, args.rounds, between=ground.rates.measure, progress=step, deadline=started + 60 * args.minutes)
    about = {
        "benchmark": task,
        "date": time.strftime("%Y-%m-%d"),
        "command": " ".join(["python", f"benchmarks/{task}.py", *sys.argv[1:]]),
        "size": args.size,
        "model": asdict(size),
        "threads": args.threads,
        "rounds": max((len(o.rounds) for o in outcomes), default=0),
        "seconds": round(time.time() - started, 1),
        "machine": describe(),
    } | ground.about()
    return outcomes, ground, pairs, about


def title(task: str, result: dict[str, Any]) -> str:
    machine = result["machine"]
    return (
        f"{task}, {result['size']} model {result['model']}, {result['rounds']} rounds in {result['seconds']:.0f} s\n"
        f"{machine['cpu']}, {result['threads']} thread(s), load {machine['load']}; {rates_text(result['matmul_gflops'])}"
    )


def job_of(size: str, threads: int, task: str, path: Path, sentences: int) -> dict[str, Any]:
    """Returns the job for every worker. It has all training options for decoding too, because toolkits need a whole configuration."""
    return {
        "task": task,
        "size": asdict(SIZES[size]),
        "text": str(path),
        "sentences": sentences,
        "threads": threads,
        "batch_tokens": BATCH_TOKENS,
        "dropout": DROPOUT,
        "smoothing": SMOOTHING,
        "lr": LEARNING_RATE,
        "seed": SEED,
        "trim": size == "base",
    }


def scratch_folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="nmt-benchmark-")
