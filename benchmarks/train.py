"""Training speed in target tokens per second, padding and MFU, for ours, a plain torch loop and other toolkits.

    python benchmarks/train.py                              # ours, ours with the fast paths off, plain torch
    python benchmarks/train.py --peers [NAME ..] [--json]   # also other toolkits, each in its own environment (make peers)

Each contender is a process; rounds are interleaved (A,B,B,A) and one process runs at a time. A round is a few updates on a fixed list of
the contender's own batches, from forward to optimizer step; batching is not timed. All use the same model size, vocabulary, text, batch
size in tokens, dropout rate, label smoothing and number of threads.

tok/s: real target tokens per second, median over rounds, and min..max. padding: share of padded positions in all batches of the text.
GFLOP/s: the best matrix rate of the row's precision, measured between the rounds; ratios depend on it. MFU: useful operations per second
(benchmarks/flops.py: without padding, the same for all) over that rate. `x`: speed-up, the median over rounds of the ratio, over plain
fp32, and over plain and the fastest peer in the same precision, with the MKL workaround or `as installed`. loss: of the row's first and
last round; rows of one process train the same weights in turns, so that it falls over all of them.
"""

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import competition as shared
from contenders import training_rows
from driver import Outcome
from flops import training_per_target_token
from report import fastest_peer, find, legend, line, ratio, show, spread, table, times
from sizes import SIZES, Pair

SENTENCES = 8000


def result(outcomes: list[Outcome], ground: shared.Ground, pairs: list[Pair], about: dict[str, Any]) -> dict[str, Any]:
    """Returns the JSON object."""
    flop = training_per_target_token(SIZES[about["size"]], pairs)
    rows = [_row(outcome, outcomes, ground, flop) for outcome in outcomes]
    best = {}
    for precision in dict.fromkeys(o.row.options["precision"] for o in outcomes):
        found = {stock: fastest_peer(outcomes, "tokens", precision=precision, mended=not stock) for stock in (False, True)}
        best[precision] = {"as installed" if k else "any": o.row.name for k, o in found.items() if o}
    return about | {"gflop_per_target_token": round(flop / 1e9, 5), "fastest_peer": best, "rows": rows, "legend": legend(outcomes)}


def _row(outcome: Outcome, outcomes: list[Outcome], ground: shared.Ground, flop: float) -> dict[str, Any]:
    row = line(outcome, "tokens")
    if not outcome.rounds:
        return row
    precision = outcome.row.options["precision"]
    losses = [r["loss"] for r in outcome.rounds]
    return row | {
        "padding_share": outcome.about["padding_share"],
        "batch_target_tokens": outcome.about["batch_target_tokens"],
        "matmul_gflops": round(ground.peak(precision), 1),
        "mfu": round(row["per_second"]["median"] * flop / 1e9 / ground.peak(precision), 4),
        "loss": {"first": round(losses[0], 4), "last": round(losses[-1], 4), "fell": losses[-1] < losses[0] if len(losses) > 1 else None},
        "over_plain_fp32": ratio(outcome, find(outcomes, "plain", precision="fp32"), "tokens"),
        "over_plain": ratio(outcome, find(outcomes, "plain", precision=precision), "tokens"),
        "over_fastest_peer": ratio(outcome, fastest_peer(outcomes, "tokens", precision=precision), "tokens"),
        "over_fastest_peer_as_installed": ratio(outcome, fastest_peer(outcomes, "tokens", precision=precision, mended=False), "tokens"),
    }


COLUMNS = {
    "contender": lambda r: r["contender"],
    "": lambda r: r["precision"],
    "tok/s": lambda r: f"{r['per_second']['median']:,}",
    "min..max": spread,
    "padding": lambda r: f"{r['padding_share']:.1%}",
    "GFLOP/s": lambda r: f"{r['matmul_gflops']:.0f}",
    "MFU": lambda r: f"{r['mfu']:.1%}",
    "x plain fp32": lambda r: times(r["over_plain_fp32"]),
    "x plain": lambda r: times(r["over_plain"]),
    "x fastest peer": lambda r: times(r["over_fastest_peer"]),
    "as installed": lambda r: times(r["over_fastest_peer_as_installed"]),
    "loss": lambda r: f"{r['loss']['first']:.2f} > {r['loss']['last']:.2f}" + (" (not falling)" if r["loss"]["fell"] is False else ""),
}


def main() -> None:
    parser = shared.parser(__doc__ or "")
    parser.add_argument("--precision", nargs="+", choices=["fp32", "bf16"], default=["fp32", "bf16"])
    parser.add_argument("--batch-tokens", type=int, default=shared.BATCH_TOKENS, help="padded tokens of a batch, target side")
    parser.add_argument("--updates", type=int, default=2, help="a round")
    parser.add_argument("--ladder", action="store_true", help="ours without each of its fast paths, too")
    args = parser.parse_args()
    names = shared.peers(args)
    with shared.scratch_folder() as scratch:
        job = {"batch_tokens": args.batch_tokens, "updates": args.updates}
        found = result(
            *shared.run(
                args, "train", SENTENCES, lambda s: training_rows(s, names, args.precision, ladder=args.ladder), Path(scratch), **job
            )
        )
    if args.json:
        print(json.dumps(found))
    else:
        show(shared.title("training", found), table(found["rows"], COLUMNS), found["rows"], found["legend"])


if __name__ == "__main__":
    main()
