"""Training speed of later methods relative to the plain residual, on a CUDA device (or, as a check, on a CPU).

    python benchmarks/gpu/methods.py [--compile] [--rows hyper mhc ..] [--out FILE]

Rows of search_spaces/modern/residual.yaml at the size base, in bf16, as the product trains them: packed rows, captured graphs, with
--compile also compiled layers. Medians of rounds, one row after another; plain is the mean of its medians before and after all others.
Published ratios, of decoders on other machines: static hyper-connections .57, mHC .49, hyper-connections .48, attention residuals .40,
MUDD .37.
"""

import argparse
import json
import statistics
import sys
from pathlib import Path
from typing import Any

import torch

BENCHMARKS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(BENCHMARKS), str(BENCHMARKS.parent), str(BENCHMARKS / "gpu")]

from sizes import SIZES, text  # noqa: E402
from speed import timed  # noqa: E402
from training_step import TrainingStep, in_form, updates_of  # noqa: E402

from models.transformer import build, count_parameters  # noqa: E402
from orchestrator.specs.rows import resolve  # noqa: E402
from orchestrator.training.batches import packed  # noqa: E402
from orchestrator.training.graphs import form_on  # noqa: E402
from orchestrator.training.runtime import Runtime  # noqa: E402

ROWS = ("hyper-static", "hyper", "mhc", "attnres", "attnres-block", "mudd", "dca", "dlcl", "dwa", "lime", "value-residual")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--size", choices=list(SIZES), default="base")
    parser.add_argument("--batch-tokens", type=int, default=25_000)
    parser.add_argument("--updates", type=int, default=2, help="a round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=ROWS)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    device, size = torch.device(args.device), SIZES[args.size]
    updates = updates_of(text(size.vocab, args.batch_tokens // 5), args.batch_tokens, args.updates)
    gpu = device.type == "cuda"
    found: dict[str, Any] = {"device": torch.cuda.get_device_name() if gpu else "cpu", "torch": torch.__version__}
    found |= {"compiled": args.compile, "rows": {}}
    specs = {row.id.rsplit("/", 1)[-1]: row.spec for row in resolve("modern/residual")}
    tokens = sum(update.tgt_tokens for update in updates)
    plain: list[float] = []
    for name in ("plain", *args.rows, "plain"):  # one at a time, since a graph keeps its memory
        spec, row = specs[name], found["rows"].setdefault(name, {})
        model = spec.model.model_dump() | {
            "d_model": size.d_model,
            "d_ff": size.d_ff,
            "num_heads": size.num_heads,
            "embeddings": "three-way",
        }
        for side in ("encoder", "decoder"):
            model[side] |= {"num_layers": size.layers}
        try:
            built = build(model, size.vocab, size.vocab).to(device)
            if args.compile:
                built.compile_layers()
            form = form_on(Runtime(device=device), built, spec.train.model_copy(update={"precision": "bf16"})) or packed
            given = in_form(updates, form, device)
            step = TrainingStep(built, device, autocast=True)
            seconds = [timed(device, lambda step=step, given=given: [step(update) for update in given]) for _ in range(args.rounds + 2)]
            row |= {"parameters": count_parameters(built), "form": form.__name__, "captured": bool(step.graphs.graphs)}
            row["tokens_per_second"] = round(tokens / statistics.median(seconds[2:]))  # the first two warm up and capture
            plain += [row["tokens_per_second"]] if name == "plain" else []
            del step, built
        except Exception as error:  # the other rows are measured
            row["failed"] = f"{type(error).__name__}: {error}"[:300]
        if gpu:
            torch.cuda.empty_cache()
        if args.out:
            args.out.write_text(json.dumps(found, indent=2))
    for row in found["rows"].values():
        if "failed" not in row:
            row["x_plain"] = round(row["tokens_per_second"] / statistics.mean(plain), 3)
    written = json.dumps(found, indent=2)
    print(written)
    if args.out:
        args.out.write_text(written)


if __name__ == "__main__":
    main()
