"""Minutes on one core until Multi30k test_2016_flickr reaches 30, 35, 38 and 40 BLEU; attempts are rows of sweeps/speedrun.yaml.

    python benchmarks/speedrun.py --data-dir DIR [ROW ..]

Runs each row with every seed of the file that has no figure yet, by `nmt-ablate run` pinned to one core, seed by seed. The time is that of
the whole process (start-up, training, validation, checkpoints, decoding, scoring) without data preparation. CPU time is used, because wall
time is unreliable on a shared machine; both are recorded. Each figure is added at once to docs/performance/speedrun.json, from which
docs/speedrun.md is regenerated.
"""

import argparse
import itertools
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from filelock import FileLock
from machine import describe, measured_rates
from scipy import stats

from orchestrator.data.prepare import prepare
from orchestrator.specs.row import Row
from orchestrator.specs.rows import resolve, sweep_of

ROOT = Path(__file__).resolve().parents[1]
FILE = ROOT / "search_spaces/sweeps/speedrun.yaml"
FIGURES, PAGE = ROOT / "docs/performance/speedrun.json", ROOT / "docs/speedrun.md"
TARGETS = (30, 35, 38, 40)


def main() -> None:
    parser = argparse.ArgumentParser(description="The race to a BLEU on Multi30k.")
    parser.add_argument("rows", nargs="*", help="names of rows; default: all")
    parser.add_argument("--data-dir", type=Path, help="holds multi30k/; without it the page alone is written")
    parser.add_argument("--core", type=int, default=0, help="the core to run on")
    parser.add_argument("--cache-dir", type=Path, default=ROOT / ".data-cache")
    arguments = parser.parse_args()
    rows = {row.id.rpartition("/")[2]: row for row in resolve(str(FILE))}
    if unknown := set(arguments.rows) - set(rows):
        parser.error(f"{', '.join(sorted(unknown))}: no row of {FILE.name}; expected of {', '.join(rows)}")
    seeds = sweep_of(str(FILE), None).seeds if arguments.data_dir is not None else []
    for seed, name in itertools.product(seeds, arguments.rows or rows):
        if all(run["seed"] != seed for run in load().get(name, {"runs": []})["runs"]):
            prepare(rows[name].spec.data, arguments.data_dir, arguments.cache_dir)
            add(name, train(name, seed, arguments))
    PAGE.write_text(page(rows, load()))


def load() -> dict[str, Any]:
    """Returns row -> {"machine", "runs"}."""
    return json.loads(FIGURES.read_text()) if FIGURES.exists() else {}


def add(name: str, run: dict[str, Any]) -> None:
    """Adds a run to the file of figures; two processes may do so at once, on different cores."""
    with FileLock(f"{FIGURES}.lock"):
        figures = load()
        entry = figures.setdefault(name, {"machine": describe(), "matmul_gflops": measured_rates(), "runs": []})
        entry["runs"] = sorted([*entry["runs"], run], key=lambda each: each["seed"])
        FIGURES.write_text(json.dumps(figures, indent=1, sort_keys=True) + "\n")


def train(name: str, seed: int, arguments: argparse.Namespace) -> dict[str, Any]:
    """Trains, decodes and scores a row; returns {"seed", "date", "bleu", "params", "cpu_minutes", "wall_minutes"}.

    Raises SystemExit if the run fails.
    """
    with tempfile.TemporaryDirectory() as results:
        command = ["taskset", "-c", str(arguments.core), sys.executable, "-m", "orchestrator", "run", f"{FILE}#{name}", "--seed", str(seed)]
        command += ["--engine", "local", "--no-tracking", "--json", "--data-dir", str(arguments.data_dir)]
        command += ["--results", results, "--cache-dir", str(arguments.cache_dir)]
        environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        started, before = time.monotonic(), os.times()
        done = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)
        wall, after = time.monotonic() - started, os.times()
    if done.returncode:
        raise SystemExit(f"error: {name} with seed {seed} ended with exit code {done.returncode}")
    record = json.loads(done.stdout.splitlines()[-1])
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    minutes = {"cpu_minutes": round(cpu / 60, 2), "wall_minutes": round(wall / 60, 2)}
    return {"seed": seed, "date": f"{datetime.now(UTC):%Y-%m-%d}", "bleu": round(record["bleu"], 2), "params": record["params"]} | minutes


def page(rows: dict[str, Row], figures: dict[str, Any]) -> str:
    """Returns the text of docs/speedrun.md. It leaves out rows with one seed, whose differences have no p-value."""
    figures = {name: entry for name, entry in figures.items() if len(entry["runs"]) > 1}
    attempts = [name for name in rows if name in figures]
    table = "\n".join(line(name, rows, figures) for name in attempts)
    best = "\n".join(f"| {target} | {fastest(target, figures)} |" for target in TARGETS)
    return f"""# Minutes to a BLEU

CPU minutes of one core until Multi30k De-En, test_2016_flickr, reaches a BLEU (beam 5, sacreBLEU 13a, cased). They include everything
but the preparation of the data. `python benchmarks/speedrun.py --data-dir DIR` runs `search_spaces/sweeps/speedrun.yaml` and writes this
page.

| BLEU | minutes, row |
|---|---|
{best}

BLEU is the mean over seeds. Minutes are the least of the seeds, since the machine had other work at times. Brackets name the row that is
changed and compared with. p is of Welch's t-test over seeds and says nothing about other sentences.
[Data](performance/speedrun.json), also of rows with one seed.

| row | what changes | minutes | BLEU | s.d. | seeds | difference | p |
|---|---|---|---|---|---|---|---|
{table}

{processors(attempts, figures)}
"""


def processors(attempts: list[str], figures: dict[str, Any]) -> str:
    """Which processor ran which rows: their minutes compare only where it is the same."""
    by_cpu: dict[str, list[str]] = {}
    for name in attempts:
        by_cpu.setdefault(figures[name]["machine"]["cpu"], []).append(name)
    most = max(by_cpu, key=lambda cpu: len(by_cpu[cpu]), default="")
    parts = [f"{', '.join(rows)}: {cpu}" for cpu, rows in by_cpu.items() if cpu != most]
    notes = "".join(f" {entry['note']}" for entry in figures.values() if "note" in entry)
    return f"Minutes compare only on one processor. {'; '.join([*parts, f'the other rows: {most}' if parts else most])}.{notes}"


def line(name: str, rows: dict[str, Row], figures: dict[str, Any]) -> str:
    label, bleu = rows[name].label, scores(figures[name])
    cells = [
        name,
        label,
        f"{minutes(figures[name]):.1f}",
        f"{statistics.mean(bleu):.2f}",
        f"{statistics.stdev(bleu):.2f}",
        len(bleu),
    ]
    other = re.match(r"\[([\w.-]+)\]", label)
    if other and other[1] in figures:
        reference = scores(figures[other[1]])
        p = stats.ttest_ind(bleu, reference, equal_var=False).pvalue
        cells += [f"{statistics.mean(bleu) - statistics.mean(reference):+.2f}", f"{p:.3f}"]
    else:
        cells += ["", ""]
    return f"| {' | '.join(map(str, cells))} |"


def fastest(target: float, figures: dict[str, Any]) -> str:
    reached = [(minutes(entry), name) for name, entry in figures.items() if statistics.mean(scores(entry)) >= target]
    return "not reached" if not reached else "{:.1f}, {}".format(*min(reached))


def minutes(entry: dict[str, Any]) -> float:
    """The least of the seeds: work on the machine's other core costs CPU time too, and seeds of a row do the same work."""
    return min(float(run["cpu_minutes"]) for run in entry["runs"])


def scores(entry: dict[str, Any]) -> list[float]:
    return [run["bleu"] for run in entry["runs"]]


if __name__ == "__main__":
    main()
