"""Twin test of tuned arms: does equal tuning take away a difference that only the written learning rate makes, and keep a real one?

    python benchmarks/twin.py [--repetitions 20] [--trials 6] [--folder DIR] [--json FILE]     sweeps of a toy model, one after the other
    python benchmarks/twin.py --simulate [--repetitions 1000] [--json FILE]                    the rule of choice on simulated losses

The table has a baseline, its copy `twin` with 0.4 of the learning rate, and `better` with less dropout. The file claims of both
that they lower the nll of the references. Each repetition has other points, search seeds and judging seeds. Run again, it goes on.
"""

import argparse
import contextlib
import io
import json
import math
import os
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from machine import describe
from simulated_tables import compared

from orchestrator.cli.main import run
from orchestrator.scoring.significance.estimator import LEVEL, holm
from orchestrator.scoring.significance.expected_best import choice_variance
from orchestrator.scoring.significance.mixed import MixedModel
from orchestrator.scoring.significance.verdicts import Expectation, judge
from orchestrator.specs.tune import Stop, TuneSpec
from orchestrator.tuning.trials import points

AS_WANTED = ("open", "no such effect")
WRONG_AS_WRITTEN = ("reversed", "lower")
CLAIM, MARGIN = -0.2, 0.1
"""Claimed differences in nll, and the largest effect that counts as none."""
WRITTEN = 0.4
"""Learning rate of the twin in units of the baseline's, which is the best one."""
RANGE = (0.5, 4.0)
"""Factors that a search draws."""
SPEC = """
source: {{paper: twin, table: test}}
data: {{corpus: toy-smoke, subword: {{kind: word, size: 4000, joint: false}}, max_length: 60}}
batch: {{unit: tokens, size: 600}}
model: {{d_model: 32, d_ff: 64, num_heads: 4, norm: pre, embeddings: tied-output, dropout: {{residual: 0.6}},
  encoder: {{num_layers: 1}}, decoder: {{num_layers: 1}}}}
optim: {{schedule: {{kind: inverse-sqrt, lr: 0.03, warmup: 15}}, clip_norm: 1.0, label_smoothing: 0.1}}
train: {{max_steps: 80, validate_every: 20, checkpoint_every: 80}}
decode: {{checkpoint: last, beam_size: 1, max_length: 30}}
score: {{test: test, metric: sacrebleu}}
sweep: {{seeds: {judge}}}
claims:
  - {{row: twin, against: base, metric: nll, effect: {claim}, margin: {margin}}}
  - {{row: better, against: base, metric: nll, effect: {claim}, margin: {margin}}}
tune:
  trials: {trials}
  space: {{optim.schedule.lr: {{factor: {{loguniform: [{low}, {high}]}}}}}}
  seeds: {{search: {search}, judge: {judge}}}
  stop: {{rungs: [20], reduction_factor: 2}}
  draw_seed: {draw}
rows:
  base: {{pinned: true}}
  twin: {{optim: {{schedule: {{lr: 0.012}}}}}}
  better: {{model: {{dropout: {{residual: 0.1}}}}}}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description="Twin test of tuned arms.")
    parser.add_argument("--simulate", action="store_true", help="simulated losses in place of sweeps")
    parser.add_argument("--repetitions", type=int)
    parser.add_argument("--trials", type=int, default=6, help="trials of each arm")
    parser.add_argument("--folder", type=Path, help="results of the sweeps; default: a temporary folder")
    parser.add_argument("--json", type=Path, help="file to write")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="no repetition starts after these")
    args = parser.parse_args()
    if args.simulate:
        write(args.json, {"simulation": simulation(args.repetitions or 1000)})
        return
    with contextlib.ExitStack() as stack:
        folder = args.folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        started, done = time.monotonic(), []
        for repetition in range(args.repetitions or 20):
            if time.monotonic() - started > 60 * args.minutes:
                break
            done.append(repeated(repetition, folder, args.trials))
            write(args.json, {"machine": describe(), "load": os.getloadavg()[0], "repetitions": done, "rates": rates(done)})


def repeated(repetition: int, folder: Path, trials: int) -> dict[str, Any]:
    """One repetition: {"search", "judge", "draw", "seconds", "verdicts": [{"row", "configuration", "verdict", "delta", "p"}]}."""
    folder = folder.resolve() / f"{repetition:02}"
    first = 1000 + 10 * repetition
    search, judging = [first], list(range(first + 1, first + 6))
    known = folder / "verdicts.json"
    if not known.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        file, started = folder / "twin.yaml", time.monotonic()
        low, high = RANGE
        file.write_text(
            SPEC.format(claim=CLAIM, margin=MARGIN, judge=judging, search=search, trials=trials, draw=repetition + 1, low=low, high=high),
            encoding="utf-8",
        )
        places = ["--results", str(folder / "results"), "--cache-dir", str(folder.parent / "cache")]
        for extra in ([], ["--tune"]):
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as said:
                code = run(["sweep", str(file), "--engine", "local", "--no-tracking", *extra, *places])
            if code:
                raise SystemExit(f"sweep of repetition {repetition} ended with {code}: {said.getvalue()[-1500:]}")
        with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()):
            run(["verdict", str(file), "--json", *places])
        records = [json.loads(line) for line in out.getvalue().splitlines()]
        made = [
            {
                "row": record["row"].rpartition("/")[2],
                "configuration": record["configuration"],
                "verdict": record["verdict"],
                "delta": (record["effect"] or {}).get("delta"),
                "p": record["p"],
            }
            for record in records
            if record["metric"] == "nll"
        ]
        found = {
            "search": search,
            "judge": judging,
            "trials": trials,
            "draw": repetition + 1,
            "seconds": round(time.monotonic() - started, 1),
        }
        known.write_text(json.dumps(found | {"verdicts": made}), encoding="utf-8")
    return dict(json.loads(known.read_text(encoding="utf-8")))


def rates(done: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """For each row and configuration: the verdicts with their counts, and the mean difference in nll."""
    found = []
    for row in ("twin", "better"):
        for configuration in ("as written", "tuned"):
            own = [each for one in done for each in one["verdicts"] if each["row"] == row and each["configuration"] == configuration]
            words = Counter(each["verdict"] for each in own)
            deltas = [each["delta"] for each in own if each["delta"] is not None]
            about = {"row": row, "configuration": configuration, "repetitions": len(own), "verdicts": dict(words)}
            found.append(about | {"delta": round(float(np.mean(deltas)), 3) if deltas else None})
    return found


def simulation(repetitions: int) -> list[dict[str, Any]]:
    """The product's points, choice, estimator and Holm on simulated nll, for several curvatures and budgets.

    The loss of an arm is effect + curvature * log(lr / best)^2 + noise; the noise has the standard deviation `sd` over seeds. The written
    rate of the baseline is the best one, and the twin has WRITTEN of it. The real improvement gains 5 sd at its best rate, its written one.
    """
    found = []
    for trials in (4, 8, 16):
        for curvature in (1.0, 5.0, 20.0):
            for search, judging in ((1, 3), (1, 5), (3, 5)):
                found.append(simulated(trials, curvature, search, judging, repetitions))
    return found


def simulated(trials: int, curvature: float, search: int, judging: int, repetitions: int) -> dict[str, Any]:
    """Rates of one setting, in units of sd = 1: curvature is the loss at e times the best rate."""
    generator = np.random.default_rng([trials, int(curvature), search, judging])
    written, gains = np.log([1.0, WRITTEN, 1.0]), np.array([0.0, 0.0, -5.0])
    words: dict[str, Counter[str]] = {name: Counter() for name in ("twin as written", "twin", "better")}
    for repetition in range(repetitions):
        drawn = factors(trials, repetition)
        rates_at = written[:, None] + drawn[None, :]
        loss = gains[:, None] + curvature * rates_at**2
        seen = loss + generator.normal(size=(3, trials, search)).mean(axis=2)
        rung = loss + curvature + generator.normal(size=(3, trials, search)).mean(axis=2)
        for arm in range(3):
            going = {0, *np.argsort(rung[arm])[: max(1, -(-trials // 2))].tolist()}
            seen[arm, [trial for trial in range(trials) if trial not in going]] = np.inf
        chosen = loss[np.arange(3), seen.argmin(axis=1)]
        noise = generator.normal(size=(2, 3, judging))
        choices = [choice_variance([values, seen[0]], [values, seen[0]]) for values in seen[1:]]
        for name, scores in (("tuned", chosen[:, None] + noise[0]), ("as written", loss[:, :1] + noise[1])):
            twin, better = verdicts(scores, choices if name == "tuned" else [(0.0, math.inf)] * 2)
            if name == "tuned":
                words["twin"][twin] += 1
                words["better"][better] += 1
            else:
                words["twin as written"][twin] += 1
    wanted = sum(words["twin"][word] for word in AS_WANTED) / repetitions
    wrong = sum(words["twin as written"][word] for word in WRONG_AS_WRITTEN) / repetitions
    power = sum(n for word, n in words["better"].items() if word.startswith("confirmed")) / repetitions
    about = {"trials": trials, "curvature": curvature, "search_seeds": search, "judging_seeds": judging, "repetitions": repetitions}
    reversed_ = words["twin"]["reversed"] / repetitions
    return about | {"twin_wrong_as_written": wrong, "twin_as_wanted": wanted, "twin_reversed": reversed_, "improvement_found": power}


def factors(trials: int, repetition: int) -> np.ndarray:
    """Logarithms of the factors of each trial [trials]; trial 0 is as written."""
    spec = TuneSpec.model_validate(
        {
            "trials": trials,
            "space": {"optim.schedule.lr": {"factor": {"loguniform": list(RANGE)}}},
            "stop": Stop(rungs=[1]).model_dump(),
            "draw_seed": repetition,
        }
    )
    draw = spec.draws["optim.schedule.lr"]
    return np.log([1.0, *(draw.value(point[0]) for point in points(spec))])


def verdicts(scores: np.ndarray, choices: list[tuple[float, float]]) -> tuple[str, str]:
    """The words on the second and third row of nll [3, k], against the first; claims of -5 sd, margin half of that, Holm over both.
    choices: of these two (`expected_best.choice_variance`).
    """
    model = MixedModel({row: dict(enumerate(scores[row])) for row in range(3)})
    found = [compared(model, row, 0).with_choice(*choice) for row, choice in zip((1, 2), choices, strict=True)]
    adjusted = holm([each.other_sentences.p for each in found])
    words = [judge(Expectation(-1.0, -5.0, margin=2.5), each, p, level=LEVEL).word for each, p in zip(found, adjusted, strict=True)]
    return words[0], words[1]


def write(file: Path | None, found: dict[str, Any]) -> None:
    """The JSON, and the table on stdout."""
    if file is not None:
        file.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    lines = found.get("rates") or found["simulation"]
    print("| " + " | ".join(lines[0]) + " |\n|" + "---|" * len(lines[0]))
    for line in lines:
        print("| " + " | ".join(text(value) for value in line.values()) + " |")
    sys.stdout.flush()


def text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{n} {word}" for word, n in sorted(value.items(), key=lambda each: -each[1]))
    return f"{value:.3g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    main()
