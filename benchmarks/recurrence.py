"""Forward and backward time of a layer of each recurrence: our scan and torch.nn.GRU.

    python benchmarks/recurrence.py [--size small] [--tokens 2000] [--rounds 7] [--json]

Uses one batch of synthetic text with its padding and one thread, interleaved in this process (A, B, C, A, ..). Reports medians over rounds
of milliseconds and of the ratio to the scan of the same kind in the same round (above 1: the scan is faster). torch.nn.GRU computes `birnn`
with gru torch from zero states, once over packed sequences and once over the padded batch; it has no attentive variant.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]
from machine import describe, measured_rates, rates_text  # noqa: E402
from sizes import SIZES, text  # noqa: E402

from models.config import ModelConfig  # noqa: E402
from models.recurrence import BiArn, BiRnn  # noqa: E402
from models.site import Site  # noqa: E402
from orchestrator import cpu  # noqa: E402

STEPS = 8


def lengths(tokens: int, vocab: int) -> torch.Tensor:
    """Returns the lengths of the sentences of one bucket: about `tokens` tokens in sentences of similar length, as in training."""
    sizes = sorted(len(source) + 1 for source, _ in text(vocab, 20 * tokens // 20))
    middle = len(sizes) // 2
    return torch.tensor(sizes[middle : middle + max(1, tokens // sizes[middle])])


def contenders(d: int, sizes: torch.Tensor) -> dict[str, Callable[[], None]]:
    site = Site("encoder", 0, 1, ModelConfig(d_model=d, num_heads=4))
    x = pad_sequence([torch.randn(int(n), d) for n in sizes], batch_first=True).requires_grad_()
    mask = torch.arange(x.shape[1]) < sizes[:, None]

    def ours(module: torch.nn.Module) -> Callable[[], None]:
        for p in module.parameters():
            torch.nn.init.uniform_(p, -(d**-0.5), d**-0.5)

        def run() -> None:
            module(x, mask)[0].sum().backward()

        return run

    library = torch.nn.GRU(d, d, bidirectional=True, batch_first=True)

    def packed() -> None:
        rows = pack_padded_sequence(x, sizes, batch_first=True, enforce_sorted=False)
        pad_packed_sequence(library(rows)[0], batch_first=True)[0].sum().backward()

    def padded() -> None:
        library(x)[0].sum().backward()

    found: dict[str, Callable[[], None]] = {}
    for gru in ("recipe", "torch"):
        for name, module in (
            ("birnn", BiRnn(site, d, gru)),
            (f"biarn {STEPS}", BiArn(site, d, gru, STEPS)),
            ("biarn J", BiArn(site, d, gru, "J")),
        ):
            found[f"{name} {gru}: scan"] = ours(module)
    return found | {"birnn torch: nn.GRU, packed": packed, "birnn torch: nn.GRU, padded": padded}


def measure(args: argparse.Namespace) -> dict[str, Any]:
    size = SIZES[args.size]
    cpu.use(1)
    torch.manual_seed(1)
    sizes = lengths(args.tokens, size.vocab)
    runs = contenders(size.d_model, sizes)
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(-1, args.rounds):
        for name, run in runs.items():
            started = time.process_time()
            run()
            if number >= 0:
                seconds[name].append(time.process_time() - started)
    rows = []
    for name, own in seconds.items():
        scan = seconds[name.split(":")[0] + ": scan"]
        ratio = statistics.median(a / b for a, b in zip(own, scan, strict=True))
        rows.append({"what": name, "ms": round(1000 * statistics.median(own), 2), "to_scan": round(ratio, 2)})
    batch = {
        "sentences": len(sizes),
        "longest": int(sizes.max()),
        "padding": round(1 - float(sizes.sum()) / (len(sizes) * int(sizes.max())), 3),
    }
    about = {"benchmark": "recurrence", "date": time.strftime("%Y-%m-%d"), "machine": describe() | {"matmul": cpu.matmul_path()}}
    about["matmul_gflops"] = measured_rates()
    return about | {"size": args.size, "rounds": args.rounds, "batch": batch, "rows": rows}


def show(result: dict[str, Any]) -> None:
    machine, batch = result["machine"], result["batch"]
    print(f"{result['size']} width, fp32, one thread of {machine['cpu']} ({machine['matmul']}), torch {machine['torch']}; {result['date']}")
    print(rates_text(result["matmul_gflops"]))
    print(f"{batch['sentences']} sentences of up to {batch['longest']} tokens, padding {batch['padding']:.1%}; {result['rounds']} rounds")
    print(f"{'':30} {'ms':>8} {'to scan':>8}")
    for row in result["rows"]:
        print(f"{row['what']:30} {row['ms']:>8.2f} {row['to_scan']:>8.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=list(SIZES), default="small")
    parser.add_argument("--tokens", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout and nothing else")
    args = parser.parse_args()
    result = measure(args)
    if args.json:
        print(json.dumps(result))
    else:
        show(result)


if __name__ == "__main__":
    main()
