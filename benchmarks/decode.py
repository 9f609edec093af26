"""Speed of decoding: sentences and tokens a second at beam 5 and greedy, on generated sources with random weights.

    python benchmarks/decode.py                                       # the small model, every output 24 tokens long
    python benchmarks/decode.py --rows decoder.connection=dense encoder.aggregation=linear,decoder.aggregation=linear --json

Everything is measured in this one run, interleaved A,B,A,B: each row at each beam, and the fp32 matmul rate that MFU is relative to.
Figures are medians over the repeats. MFU = matmul operations executed (padding and finished rows included) / seconds / that rate. A row's
`relative` is its sentences a second over the baseline's at the same beam; `relative_flops` is the baseline's operations over its own: what
`relative` would be at equal MFU. Outputs have the lengths that the search finds with --length 0. Runs without Ray.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import models
from orchestrator import cpu
from orchestrator.beam import EOS
from orchestrator.spec import DecodeSpec, LengthPenalty, ModelSpec
from orchestrator.translate import batches, decode_corpus

SIZES: dict[str, tuple[dict[str, Any], int, int]] = {
    "tiny": ({"d_model": 64, "d_ff": 256, "num_heads": 4}, 2, 1000),
    "small": ({"d_model": 256, "d_ff": 1024, "num_heads": 4}, 6, 8000),
    "base": ({"d_model": 512, "d_ff": 2048, "num_heads": 8}, 6, 32000),
}


class Forced(nn.Module):
    """The model with EOS out of reach, so that every output is as long as its limit."""

    def __init__(self, model: models.Transformer) -> None:
        super().__init__()
        self.model = model
        self.encode, self.decode = model.encode, model.decode

    def logits(self, hidden: Tensor) -> Tensor:
        logits = self.model.logits(hidden)
        logits[..., EOS] = -1e9
        return logits


def model_config(size: str, row: str) -> dict[str, Any]:
    """The preset with a row's changes: `decoder.connection=dense,decoder.aggregation=linear`; `baseline` changes nothing."""
    widths, layers, _ = SIZES[size]
    config = ModelSpec(norm="pre", embeddings="three-way", **widths).model_dump()
    config["encoder"]["num_layers"] = config["decoder"]["num_layers"] = layers
    for change in [] if row == "baseline" else row.split(","):
        path, _, value = change.partition("=")
        *parents, name = path.split(".")
        place = config
        for parent in parents:
            place = place[parent]
        if name not in place or not value:
            raise SystemExit(f"error: --rows {change}: no such key; write e.g. decoder.connection=dense")
        current = place[name]
        place[name] = {"kind": value} if isinstance(current, dict) or current is None else type(current)(value)
    return config


def matmul_rate(device: torch.device, n: int = 1024, times: int = 10) -> float:
    """fp32 matmul operations a second, n x n x n."""
    a, b = torch.randn(n, n, device=device), torch.randn(n, n, device=device)
    a @ b
    started = _now(device)
    for _ in range(times):
        a @ b
    return 2.0 * n**3 * times / (_now(device) - started)


def measure(args: argparse.Namespace) -> dict[str, Any]:
    device = torch.device(args.device)
    path = cpu.use(args.threads)
    torch.backends.cuda.matmul.allow_tf32 = False
    vocab = SIZES[args.size][2]
    rng = random.Random(args.seed)
    sources = [[rng.randrange(4, vocab) for _ in range(min(80, 1 + int(rng.lognormvariate(3.0, 0.5))))] for _ in range(args.sentences)]
    cases: list[dict[str, Any]] = []
    for row in ["baseline", *args.rows]:
        model = models.build(model_config(args.size, row), vocab, vocab, args.seed).to(device).eval()
        for beam in args.beams:
            decode = DecodeSpec(
                beam_size=beam,
                length_penalty=LengthPenalty(kind="gnmt", alpha=0.6),
                max_ratio=1e-6 if args.length else 1.0,
                max_extra=args.length or 50,
            )
            searched = Forced(model) if args.length else model
            with FlopCounterMode(display=False) as counter:
                outputs = decode_corpus(searched, sources, decode, batch_tokens=args.batch_tokens)
            cases.append(
                {
                    "row": row,
                    "beam": beam,
                    "model": searched,
                    "decode": decode,
                    "params": models.count_parameters(model),
                    "flops": counter.get_total_flops(),
                    "tokens": sum(len(found[0].ids) + 1 for found in outputs),
                    "seconds": [],
                }
            )
    rates = []
    for _ in range(args.repeats):
        rates.append(matmul_rate(device))
        for case in cases:
            started = _now(device)
            decode_corpus(case["model"], sources, case["decode"], batch_tokens=args.batch_tokens)
            case["seconds"].append(_now(device) - started)
    groups = batches([len(s) for s in sources], args.batch_tokens)
    padded = sum(len(g) * (max(len(sources[i]) for i in g) + 1) for g in groups)
    real = sum(len(s) + 1 for s in sources)
    rate = statistics.median(rates)
    return {
        "benchmark": "decode",
        "date": time.strftime("%Y-%m-%d"),
        "machine": torch.cuda.get_device_name() if device.type == "cuda" else _cpu_name(),
        "device": device.type,
        "threads": args.threads,
        "torch": torch.__version__,
        "matmul": path if device.type == "cpu" else "fp32",
        "matmul_gflops": round(rate / 1e9, 1),
        "size": args.size,
        "vocab": vocab,
        "sentences": len(sources),
        "source_tokens": real,
        "forced_length": args.length,
        "batch_tokens": args.batch_tokens,
        "repeats": args.repeats,
        "padding_share": round(1 - real / padded, 4),
        "rows": [_line(case, cases, len(sources), rate) for case in cases],
    }


def _line(case: dict[str, Any], cases: list[dict[str, Any]], sentences: int, rate: float) -> dict[str, Any]:
    base = next(c for c in cases if c["row"] == "baseline" and c["beam"] == case["beam"])
    seconds = statistics.median(case["seconds"])
    return {
        "row": case["row"],
        "beam": case["beam"],
        "params": case["params"],
        "sentences_per_second": round(sentences / seconds, 2),
        "tokens_per_second": round(case["tokens"] / seconds, 1),
        "output_tokens": case["tokens"],
        "seconds": [round(s, 4) for s in case["seconds"]],
        "gflop": round(case["flops"] / 1e9, 2),
        "mfu": round(case["flops"] / seconds / rate, 4),
        "relative": round(statistics.median(base["seconds"]) / seconds, 3),
        "relative_flops": round(base["flops"] / case["flops"], 3),
    }


def _now(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.machine()


def show(result: dict[str, Any]) -> None:
    print(
        f"{result['size']} model, {result['sentences']} sentences, "
        f"{'outputs of ' + str(result['forced_length']) + ' tokens' if result['forced_length'] else 'free length'}, "
        f"{result['device']} x {result['threads']} threads ({result['matmul']}), torch {result['torch']}; "
        f"matmul {result['matmul_gflops']} GFLOP/s; source padding {result['padding_share']:.1%}; {result['repeats']} repeats"
    )
    print(f"{'row':<48} {'beam':>4} {'sent/s':>8} {'tok/s':>9} {'MFU':>6} {'x base':>7} {'by FLOP':>7}  spread")
    for row in result["rows"]:
        spread = (max(row["seconds"]) - min(row["seconds"])) / statistics.median(row["seconds"])
        print(
            f"{row['row']:<48} {row['beam']:>4} {row['sentences_per_second']:>8} {row['tokens_per_second']:>9} {row['mfu']:>6.1%} "
            f"{row['relative']:>7.2f} {row['relative_flops']:>7.2f}  {spread:.0%}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--size", choices=list(SIZES), default="small")
    parser.add_argument("--rows", nargs="*", default=[], help="variants: PATH=KIND[,PATH=KIND..] each, under `model`")
    parser.add_argument("--beams", type=int, nargs="+", default=[5, 1])
    parser.add_argument("--sentences", type=int, default=128)
    parser.add_argument("--length", type=int, default=24, help="tokens of every output; 0: as the search ends")
    parser.add_argument("--batch-tokens", type=int, default=2048)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout and nothing else")
    args = parser.parse_args()
    result = measure(args)
    if args.json:
        print(json.dumps(result))
    else:
        show(result)


if __name__ == "__main__":
    main()
