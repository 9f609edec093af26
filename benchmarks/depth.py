"""Cost of depth: memory and time of one update at 6, 36 and 72 encoder layers, for each way of connecting layers and the plain stack.

    python benchmarks/depth.py [--json]                     # minutes on one core, at a small width
    python benchmarks/depth.py --width 256 --tokens 32000   # the paper's small model and batch: for a GPU

Models: plain, msc (Wei et al. 2020), dlcl (Wang et al. 2019) and transparent (Bapna et al. 2018), pre-norm with 6 decoder layers, each with
all activations stored and with `train.recompute: layers`. The feed-forward width is 2 x width; residual and attention dropout are 0.1.

memory: MiB of one forward and backward pass beyond weights, gradients and Adam's moments: on a CPU the growth of the process's peak
resident set, on CUDA max_memory_allocated, each case in its own process. seconds: of one update (CPU time on a CPU, wall time on CUDA),
median over rounds; all cases of a depth are interleaved in one process. x plain: ratio to the plain stack of that depth that stores all
activations; for seconds the median of the rounds' ratios. per layer: cost of one more encoder layer between two depths, which is constant
unless something grows with the square of the depth.
"""

import argparse
import ctypes
import json
import multiprocessing
import statistics
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from machine import describe, measured_rates, rates_text
from sizes import text
from training_step import TrainingStep, updates_of

from models.transformer import build, count_parameters
from orchestrator import cpu
from orchestrator.cpu import M_MMAP_THRESHOLD, M_TRIM_THRESHOLD
from orchestrator.training.batches import Update

VOCAB = 1000
DECODER_LAYERS = 6
VARIANTS = ("plain", "msc", "dlcl", "transparent")
RECOMPUTE = ("none", "layers")


def model_of(variant: str, depth: int, width: int) -> dict[str, Any]:
    """Returns the `model` section of a spec."""
    encoder: dict[str, Any] = {"num_layers": depth}
    decoder: dict[str, Any] = {"num_layers": DECODER_LAYERS}
    model: dict[str, Any] = {
        "d_model": width,
        "d_ff": 2 * width,
        "num_heads": 4,
        "norm": "pre",
        "embeddings": "three-way",
        "dropout": {"embedding": 0.1, "residual": 0.1, "attention": 0.1, "ffn": 0.0},
        "encoder": encoder,
        "decoder": decoder,
    }
    if variant == "msc":
        encoder["self_attention"] = decoder["cross_attention"] = {"kind": "contextual"}
        model["context"] = model["bridge"] = {"kind": "multiscale", "blocks": DECODER_LAYERS}
    elif variant == "dlcl":
        encoder["connection"] = decoder["connection"] = {"kind": "dlcl"}
    elif variant == "transparent":
        model["bridge"] = {"kind": "transparent"}
    return model


class Case:
    """One model in training."""

    def __init__(self, variant: str, depth: int, recompute: str, args: argparse.Namespace) -> None:
        self.name = {"variant": variant, "depth": depth, "recompute": recompute}
        self.device = torch.device(args.device)
        model = build(model_of(variant, depth, args.width), VOCAB, VOCAB, 1).to(self.device)
        model.recompute(recompute == "layers")
        self.step = TrainingStep(model, self.device, keep_gradients=True)  # so that gradients do not count as memory of a pass
        self.params = count_parameters(model)

    def update(self, update: Update) -> float:
        """Runs one update and returns the seconds."""
        started = self._clock()
        self.step(update)
        return self._clock() - started

    def _clock(self) -> float:
        """Returns CPU seconds of this process on a CPU, which other processes disturb less, else wall-clock seconds."""
        if self.device.type == "cpu":
            return time.process_time()
        torch.cuda.synchronize()
        return time.perf_counter()


def update_of(tokens: int) -> Update:
    return updates_of(text(VOCAB, 200 + tokens // 4), tokens, 1)[0]


# ---------------------------------------------------------------- memory


def _return_memory() -> None:
    """Makes malloc return freed memory, so that the resident set follows the memory in use."""
    libc = ctypes.CDLL(None)
    for option in (M_TRIM_THRESHOLD, M_MMAP_THRESHOLD):
        libc.mallopt(option, 1 << 16)


def _status(field: str) -> float:
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(field))
    return int(line.split()[1]) / 1024


def memory(variant: str, depth: int, recompute: str, args: argparse.Namespace) -> float:
    """Returns the peak MiB of one update beyond the memory allocated before it."""
    torch.set_num_threads(1)
    _return_memory()
    case, update, small = Case(variant, depth, recompute, args), update_of(args.tokens), update_of(60)
    for _ in range(2):
        case.update(small)  # allocates gradients and moments, loads libraries
    if case.device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        case.update(update)
        return (torch.cuda.max_memory_allocated() - before) / 2**20
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak resident set
    before = _status("VmRSS")
    case.update(update)
    return _status("VmHWM") - before


# ---------------------------------------------------------------- time


def seconds(depth: int, args: argparse.Namespace) -> list[dict[str, Any]]:
    """Measures each case of one depth, with interleaved rounds."""
    cpu.use(1)
    update = update_of(args.tokens)
    cases = [Case(variant, depth, recompute, args) for variant in args.variants for recompute in RECOMPUTE]
    found: list[list[float]] = [[] for _ in cases]
    for number in range(args.rounds + 1):  # round 0 is a warm-up
        for at in range(len(cases)):
            i = (at + number) % len(cases)
            taken = cases[i].update(update)
            if number:
                found[i].append(taken)
    return [case.name | {"params": case.params, "rounds": rounds} for case, rounds in zip(cases, found, strict=True)]


# ---------------------------------------------------------------- results


def part(args: argparse.Namespace, function: Callable[..., Any], *more: Any) -> Any:
    """Calls a function in a new process and returns its result."""
    # a fork has all modules loaded, but CUDA does not survive one
    with multiprocessing.get_context("fork" if args.device == "cpu" else "spawn").Pool(1) as pool:
        return pool.apply(function, (*more, args))


def rates(args: argparse.Namespace) -> dict[str, dict[str, float]]:
    """Measures the CPU's matrix rates on one thread."""
    cpu.use(1)
    return measured_rates()


def measure(args: argparse.Namespace) -> dict[str, Any]:
    rows: list[dict[str, Any]] = []
    for depth in args.depths:
        timed = part(args, seconds, depth)
        plain = next(row["rounds"] for row in timed if (row["variant"], row["recompute"]) == (args.variants[0], "none"))
        for row in timed:
            _tell(f"{row['variant']} {depth} {row['recompute']}")
            rounds = row.pop("rounds")
            ratios = [a / b for a, b in zip(rounds, plain, strict=True)]
            row["seconds"] = {"median": round(statistics.median(rounds), 4), "min": round(min(rounds), 4), "max": round(max(rounds), 4)}
            row["seconds_over_plain"] = round(statistics.median(ratios), 3)
            row["memory_mib"] = round(part(args, memory, row["variant"], depth, row["recompute"]), 1)
            rows.append(row)
        base = next(
            row["memory_mib"] for row in rows if (row["depth"], row["variant"], row["recompute"]) == (depth, args.variants[0], "none")
        )
        for row in rows:
            if row["depth"] == depth:
                row["memory_over_plain"] = round(row["memory_mib"] / base, 3)
    _tell("")
    return {
        "benchmark": "depth",
        "date": time.strftime("%Y-%m-%d"),
        "machine": describe() | {"device": args.device},
        "matmul_gflops": part(args, rates),
        "width": args.width,
        "tokens": args.tokens,
        "rounds": args.rounds,
        "rows": rows,
        "per_layer": curve(rows, args),
    }


def curve(rows: list[dict[str, Any]], args: argparse.Namespace) -> list[dict[str, Any]]:
    """Returns the cost of one more layer between each two consecutive depths."""
    found = []
    for variant in args.variants:
        for recompute in RECOMPUTE:
            own = [row for row in rows if (row["variant"], row["recompute"]) == (variant, recompute)]
            for low, high in pairwise(own):
                layers = high["depth"] - low["depth"]
                step = {"variant": variant, "recompute": recompute, "from": low["depth"], "to": high["depth"]}
                step["milliseconds"] = round(1000 * (high["seconds"]["median"] - low["seconds"]["median"]) / layers, 3)
                step["memory_mib"] = round((high["memory_mib"] - low["memory_mib"]) / layers, 3)
                found.append(step)
    return found


def _tell(what: str) -> None:
    if sys.stderr.isatty():
        print(f"\r{what:40}", end="" if what else "\r", file=sys.stderr, flush=True)


def show(result: dict[str, Any]) -> None:
    machine = result["machine"]
    where = machine["device"] if machine["device"] == "cuda" else f"one thread of {machine['cpu']}"
    print(f"width {result['width']}, {result['tokens']} target tokens, {where}, torch {machine['torch']}; ", end="")
    print(f"{result['rounds']} rounds; {result['date']}; {rates_text(result['matmul_gflops'])}")
    print(
        f"\n{'':14}{'layers':>7} {'recompute':>10} {'params':>8} {'MiB':>9} {'x plain':>8} {'s/update':>9} {'min..max':>15} {'x plain':>8}"
    )
    for row in result["rows"]:
        s = row["seconds"]
        print(
            f"{row['variant']:14}{row['depth']:>7} {row['recompute']:>10} {row['params'] / 1e6:>7.2f}M {row['memory_mib']:>9.1f} "
            f"{row['memory_over_plain']:>8.2f} {s['median']:>9.3f} {s['min']:>7.3f}..{s['max']:<6.3f} {row['seconds_over_plain']:>8.2f}"
        )
    print(f"\none more encoder layer:\n{'':14}{'recompute':>10} {'between':>9} {'ms':>9} {'MiB':>9}")
    for row in result["per_layer"]:
        span = f"{row['from']}-{row['to']}"
        print(f"{row['variant']:14}{row['recompute']:>10} {span:>9} {row['milliseconds']:>9.2f} {row['memory_mib']:>9.3f}")


def arguments(given: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--depths", nargs="*", type=int, default=[6, 36, 72], help="multiples of 6")
    parser.add_argument(
        "--variants", nargs="*", choices=VARIANTS, default=list(VARIANTS), help="the first is what the others are compared with"
    )
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=1000, help="padded target tokens of the batch")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout and nothing else")
    return parser.parse_args(given)


def main() -> None:
    args = arguments()
    result = measure(args)
    if args.json:
        print(json.dumps(result))
    else:
        show(result)


if __name__ == "__main__":
    main()
