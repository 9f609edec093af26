"""Decoding speed in sentences per second, and correctness of fast decoding, for ours, a plain torch decoder and other toolkits.

    python benchmarks/decode.py                              # ours, ours with the fast paths off, plain torch
    python benchmarks/decode.py --peers [NAME ..] [--json]   # also other toolkits, each in its own environment (make peers)

Each contender is a process; rounds are interleaved (A,B,B,A) and one process runs at a time. All translate the same sources, longest first,
with random weights of the same model size. EOS is disabled, so that every output takes --length steps. Batches have 32 sentences; `own`
passes all sources at once, to be batched by the toolkit. CTranslate2 uses our weights. `--clock cpu` counts CPU seconds in place of the
wall clock's, for one thread on a machine that others use too.

`x` is the speed-up, the median over rounds of the ratio at the same beam size, over plain fp32, ours with the fast paths off, CTranslate2
fp32 and int8, and the fastest fp32 peer (batches of 32). GFLOP/s: the matrix rate of the row's precision, measured between the rounds;
ratios depend on it. Quality (unless --no-quality): BLEU of a trained model for each way of decoding, see benchmarks/quality.py.

`--ladder` adds ours without each fast path. Exit code 1 if one of them costs more than 3% (the median over rounds): it should go.
"""

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import competition as shared
import quality
import torch
from contenders import decoding_rows
from driver import Outcome
from report import fastest_peer, find, legend, line, ratio, show, spread, table, times
from safetensors.torch import save_file
from sizes import SIZES

from models.transformer import build

EOS, FORBID = 3, -1e4
SLOWER = 1.03
"""A fast path without which decoding is so much faster is a fault; below lies noise."""


def weights(size: str, scratch: Path) -> dict[str, str]:
    """Writes our random weights with EOS disabled, for CTranslate2, and returns the paths for the job."""
    shape = SIZES[size]
    config = shape.model(dropout=0.0, output_bias=True)
    model = build(config, shape.vocab, shape.vocab, shared.SEED)
    with torch.no_grad():
        model.output.bias[EOS] = FORBID
    save_file({name: p.detach().contiguous() for name, p in model.named_parameters()}, scratch / "ours.safetensors")
    (scratch / "ours.json").write_text(json.dumps(config))
    return {"weights": str(scratch / "ours.safetensors"), "config": str(scratch / "ours.json")}


def result(outcomes: list[Outcome], ground: shared.Ground, about: dict[str, Any]) -> dict[str, Any]:
    """Returns the JSON object without the quality check."""
    rows = []
    for outcome in outcomes:
        row = line(outcome, "sentences")
        if outcome.rounds:
            beam = {"beam": outcome.row.options["beam"]}
            base = beam | {"batch": "32", "precision": "fp32"}
            row["steps"] = outcome.rounds[0]["longest"]
            row["sentences"] = outcome.rounds[0]["sentences"]
            row["matmul_gflops"] = round(ground.peak(outcome.row.options["precision"]), 1)
            row["over_plain"] = ratio(outcome, find(outcomes, "plain", **base), "sentences")
            row["over_off"] = ratio(outcome, find(outcomes, "ours, off", **base), "sentences")
            row["over_ours"] = ratio(outcome, find(outcomes, "ours", **base), "sentences")
            row["over_ctranslate2"] = ratio(outcome, find(outcomes, "CTranslate2", **base), "sentences")
            row["over_ctranslate2_int8"] = ratio(outcome, find(outcomes, "CTranslate2", **base | {"precision": "int8"}), "sentences")
            row["over_fastest_peer"] = ratio(outcome, fastest_peer(outcomes, "sentences", **base), "sentences")
        rows.append(row)
    return about | {"rows": rows, "legend": legend(outcomes)}


COLUMNS = {
    "contender": lambda r: r["contender"],
    "": lambda r: r["precision"],
    "beam": lambda r: r["beam"],
    "batch": lambda r: r["batch"],
    "sent/s": lambda r: r["per_second"]["median"],
    "min..max": spread,
    "steps": lambda r: r["steps"],
    "GFLOP/s": lambda r: f"{r['matmul_gflops']:.0f}",
    "x plain": lambda r: times(r["over_plain"]),
    "x off": lambda r: times(r["over_off"]),
    "x CT2 fp32": lambda r: times(r["over_ctranslate2"]),
    "x CT2 int8": lambda r: times(r["over_ctranslate2_int8"]),
    "x fastest fp32 peer": lambda r: times(r["over_fastest_peer"]),
}

QUALITY = {
    "contender": lambda r: r["contender"],
    "": lambda r: r["precision"],
    "BLEU": lambda r: r["bleu"],
    "equal to the slow path": lambda r: f"{r['equal']:.1%}",
}


def main() -> None:
    parser = shared.parser(__doc__ or "")
    parser.add_argument("--beams", type=int, nargs="+", default=[5, 1])
    parser.add_argument("--precision", nargs="+", choices=["fp32", "bf16", "int8"], default=["fp32", "bf16", "int8"])
    parser.add_argument("--ladder", action="store_true", help="ours without each of its fast paths, too")
    parser.add_argument("--sentences", type=int, default=96)
    parser.add_argument("--clock", choices=["wall", "cpu"], default="wall", help="cpu: CPU seconds, on a machine that others use too")
    parser.add_argument("--length", type=int, default=24, help="steps of every output")
    parser.add_argument(
        "--trained", metavar="RUN", help="directory of a trained row for the quality check; default: the quickstart row pre-norm"
    )
    parser.add_argument("--no-quality", action="store_true")
    args = parser.parse_args()
    names = shared.peers(args)
    with shared.scratch_folder() as folder:
        scratch = Path(folder)
        job = {"length": args.length, "clock": args.clock} | weights(args.size, scratch)
        outcomes, ground, _, about = shared.run(
            args,
            "decode",
            args.sentences,
            lambda s: decoding_rows(s, names, args.beams, args.precision, ladder=args.ladder),
            scratch,
            **job,
        )
        found = result(outcomes, ground, about) | {"clock": args.clock}
        if not args.no_quality:
            say = lambda text: print(text, file=sys.stderr, flush=True)  # noqa: E731
            found["quality"] = quality.check(args.trained, ground.setting, "ctranslate2" in names, scratch, say)
    if args.json:
        print(json.dumps(found))
    else:
        show(shared.title("decoding", found), table(found["rows"], COLUMNS), found["rows"], found["legend"])
        if "quality" in found:
            checked = found["quality"]
            about = f"{checked['row']}, {checked['params']:,} parameters, {checked['sentences']} sentences, beam {checked['beam']}"
            show(f"\nquality: {about}", table(checked["rows"], QUALITY), checked["rows"], {})
    slower = [r for r in found["rows"] if r["contender"].startswith("ours, ") and (r.get("over_ours") or 0) > SLOWER]
    for row in slower:
        print(f"beam {row['beam']}: {row['contender']} is {row['over_ours']:.2f} times as fast as ours", file=sys.stderr)
    if slower:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
