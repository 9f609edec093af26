"""Overheads of the product besides training: start-up of the command line, time to the first step, Ray's and a search's overhead per trial.

    python benchmarks/overheads.py [--repeats 3] [--skip cli run ray search] [--json]

Each figure is a median over new processes; the work is that of the smoke profile, six updates of a tiny model. Run it on an idle machine.

cli     seconds and CPU seconds of commands that train nothing, and the large packages that they load
run     `nmt-ablate run ROW --profile smoke`, local engine: seconds to the end of the first step, by phase, and to the end of the process
ray     a sweep of one row with several seeds: time from the end of a trial to the first step of the next, with one process or two DDP
        workers per trial
search  seconds from the last update of a training to the first of the next, on one CPU, by both engines: rows without their decoding and
        scoring, trials of a search, trials of a search with one rung (and between its two phases)
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress

sys.path[:0] = [str(Path(__file__).parent)]
from machine import describe  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
ROW = "quickstart/fusion/baseline"
COMMANDS = (
    ["--help"],
    ["--version"],
    ["list"],
    ["list", "dou2018/table1"],
    ["show", "dou2018/table1/row9"],
    ["plan", "dou2018/table1"],
    ["status"],
)
PARTS = ("cli", "run", "ray", "search")
TRIALS = 17
SEARCH = """source: {{paper: benchmark, table: search}}
data: {{corpus: toy-smoke, subword: {{kind: word, size: 300, joint: false}}}}
batch: {{unit: tokens, size: 300}}
model: {{d_model: 16, d_ff: 32, num_heads: 2, norm: pre, encoder: {{num_layers: 2}}, decoder: {{num_layers: 2}}}}
optim: {{schedule: {{kind: inverse-sqrt, lr: 3.0e-3, warmup: 10}}}}
train: {{max_steps: 40, validate_every: 20, checkpoint_every: 40}}
decode: {{beam_size: 1}}
tune:
  trials: 17
  space: {{optim.schedule.lr: {{factor: {{loguniform: [0.5, 2.0]}}}}}}
  seeds: {{search: [101], judge: [1]}}
  stop: {stop}
rows: {{plain: {{pinned: true}}}}
"""
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}


def start(command: list[str], cwd: Path, cpus: int | None = None) -> dict[str, Any]:
    """Runs one command in a new process under the probe. Returns the probe's record with wall and CPU seconds (without Ray's processes).

    cpus: number of the machine's CPUs that it may use. Raises RuntimeError with the last lines of output if it fails.
    """
    out = cwd / "probe.json"
    allowed = sorted(os.sched_getaffinity(0))[:cpus]
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.time()
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "overheads_probe.py"), str(started), str(out), "--", *command],
        cwd=cwd,
        env=os.environ | ENVIRONMENT,
        capture_output=True,
        text=True,
        preexec_fn=lambda: os.sched_setaffinity(0, allowed),
    )
    wall, after = time.time() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: exit {done.returncode}: {(done.stdout + done.stderr)[-600:]}")
    cpu = after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime
    found = json.loads(out.read_text()) if out.exists() else {"seconds": {}, "imported": [], "first_step": None}
    out.unlink(missing_ok=True)
    return found | {"wall": wall, "cpu": cpu}


def median(values: list[float]) -> float:
    return round(statistics.median(values), 3)


def medians(each: list[dict[str, float]]) -> dict[str, float]:
    """Returns the median of each phase; a missing phase counts as 0."""
    names = dict.fromkeys(name for one in each for name in one)
    return {name: median([one.get(name, 0.0) for one in each]) for name in names}


def cli(repeats: int, folder: Path, tick: Any) -> list[dict[str, Any]]:
    (folder / "results").mkdir(exist_ok=True)
    rows = []
    for command in COMMANDS:
        found = []
        for _ in range(repeats):
            found.append(start(command, folder))
            tick()
        each = {name: [round(one[name], 3) for one in found] for name in ("wall", "cpu")}
        rows.append(
            {
                "command": " ".join(command),
                "wall": median(each["wall"]),
                "cpu": median(each["cpu"]),
                "repeats": each,
                "imported": found[0]["imported"],
            }
        )
    return rows


def runs(repeats: int, folder: Path, tick: Any) -> list[dict[str, Any]]:
    """Measures `run`. cold: no prepared data and no MLflow store; warm: with both, another seed; done: the row is finished already."""
    found: dict[str, list[dict[str, Any]]] = {"cold": [], "warm": [], "warm, no tracking": [], "done": []}
    for i in range(repeats):
        place = folder / f"run{i}"
        place.mkdir()
        for name, seed, more in (("cold", 1, []), ("warm", 2, []), ("warm, no tracking", 3, ["--no-tracking"]), ("done", 3, [])):
            found[name].append(start(["run", ROW, "--profile", "smoke", "--seed", str(seed), *more], place))
            tick()
    lines = []
    for name, each in found.items():
        steps = [one["first_step"] for one in each if one["first_step"]]
        lines.append(
            {
                "case": name,
                "wall": median([one["wall"] for one in each]),
                "cpu": median([one["cpu"] for one in each]),
                "to_first_step": median([step["after"] for step in steps]) if steps else None,
                "until_first_step": medians([step["seconds"] for step in steps]),
                "phases": medians([one["seconds"] for one in each]),
                "repeats": [round(one["wall"], 3) for one in each],
            }
        )
    return lines


def rays(repeats: int, folder: Path, tick: Any) -> list[dict[str, Any]]:
    """Measures sequential trials: one CPU for trials with one process, two for trials with two workers."""
    lines = []
    for name, workers, trials in (("in process", 1, 4), ("nested, 2 workers", 2, 3)):
        found, gaps, firsts, own = [], [], [], []
        for i in range(repeats):
            place = folder / f"ray-{workers}-{i}"
            place.mkdir()
            seeds = ",".join(str(seed + 1) for seed in range(trials))
            began = time.time()
            command = ["sweep", ROW, "--profile", "smoke", "--engine", "ray", "--seeds", seeds, "--workers", str(workers), "--no-tracking"]
            found.append(start(command, place, workers))
            times = sorted(times_of(run) for run in (place / "results").glob("*/history.jsonl"))
            firsts.append(times[0][0] - began)
            gaps += [after[0] - before[1] for before, after in pairwise(times)]
            own += [end - first for first, end in times]
            tick()
        lines.append(
            {
                "case": name,
                "trials": trials,
                "wall": median([one["wall"] for one in found]),
                "to_first_step": median(firsts),
                "between_trials": median(gaps),
                "trial": median(own),
                "phases": medians([one["seconds"] for one in found]),
                "gaps": [round(gap, 3) for gap in gaps],
            }
        )
    return lines


def searches(repeats: int, folder: Path, tick: Any) -> list[dict[str, Any]]:
    """Measures what lies between two trainings of 40 updates, which validate, save and end, and then start."""
    lines = []
    cases = {"rows": ("null", ["--seeds", ",".join(map(str, range(1, TRIALS + 1)))]), "trials": ("null", ["--tune"])}
    cases["trials, one rung"] = ("{rungs: [20], reduction_factor: 2}", ["--tune"])
    for engine in ("local", "ray"):
        for case, (stop, more) in cases.items():
            gaps, phases = [], []
            for i in range(repeats):
                place = folder / f"search-{engine}-{case}-{i}"
                place.mkdir()
                (place / "spec.yaml").write_text(SEARCH.format(stop=stop))
                command = ["sweep", "spec.yaml", *more, "--engine", engine, "--no-tracking"]
                start([*command, *["--jobs", "1"][: 2 * (engine == "local")]], place, 1)
                found = between(place / "results", rung=20 if "rung" in case else 40, judged="@tuned" if case != "rows" else None)
                gaps += [gap for gap in found if gap < 1.5]
                phases += [gap for gap in found if gap >= 1.5]
                tick()
            lines.append({"engine": engine, "case": case, "between": median(gaps), "phases": median(phases or [0.0]), "gaps": len(gaps)})
    return lines


def between(results: Path, rung: int, judged: str | None) -> list[float]:
    """Seconds from the last update of each training, or part of one up to its rung, to the first of the next, less decoding and scoring.

    judged: part of the names of rows that do not count.
    """
    parts = []
    for journal in results.glob("*/journal.jsonl"):
        if judged is None or judged not in (journal.parent / "spec.yaml").read_text():
            times = [json.loads(line)["t"] for line in journal.read_text().splitlines()]
            scored = max((path.stat().st_mtime for path in journal.parent.glob("score/*.json")), default=None)
            extra = 0.0 if scored is None else scored - (journal.parent / "train.json").stat().st_mtime
            parts += [(times[i], times[min(i + rung, len(times)) - 1], extra) for i in range(0, len(times), rung)]
    return [after[0] - before[1] - before[2] for before, after in pairwise(sorted(parts))]


def times_of(history: Path) -> tuple[float, float]:
    """Returns the Unix times just before the first step and of the last file of the run."""
    first = json.loads(history.read_text().splitlines()[0])["t"]
    return first, max(path.stat().st_mtime for path in history.parent.glob("score/*.json"))


def measure(repeats: int, skip: list[str], console: Console) -> dict[str, Any]:
    result: dict[str, Any] = {"benchmark": "overheads", "date": time.strftime("%Y-%m-%d"), "machine": describe(), "repeats": repeats}
    many = {"cli": len(COMMANDS) * repeats, "run": 4 * repeats, "ray": 2 * repeats, "search": 6 * repeats}
    parts = {"cli": cli, "run": runs, "ray": rays, "search": searches}
    with tempfile.TemporaryDirectory() as folder, Progress(console=console, transient=True) as progress:
        for name in PARTS:
            if name not in skip:
                bar = progress.add_task(name, total=many[name])
                result[name] = parts[name](repeats, Path(folder), lambda bar=bar: progress.advance(bar))
    return result


def show(result: dict[str, Any]) -> None:
    machine = result["machine"]
    print(f"{machine['cpu']}, torch {machine['torch']}, Python {machine['python']}; medians of {result['repeats']} processes each")
    for row in result.get("cli", []):
        loaded = ", ".join(name for name in row["imported"] if name not in ("typer",))
        print(f"nmt-ablate {row['command']:<28} {row['wall']:6.2f} s  {row['cpu']:6.2f} CPU-s   {loaded}")
    for row in result.get("run", []):
        first = "-" if row["to_first_step"] is None else f"{row['to_first_step']:.2f}"
        print(f"run, {row['case']:<18} first step after {first:>5} s; whole {row['wall']:.2f} s, {row['cpu']:.2f} CPU-s")
        _phases("until the first step", row["until_first_step"])
        _phases("whole", row["phases"])
    for row in result.get("ray", []):
        print(
            f"ray, {row['case']:<18} first step after {row['to_first_step']:.2f} s; between trials {row['between_trials']:.2f} s; "
            f"a trial {row['trial']:.2f} s; {row['trials']} trials {row['wall']:.2f} s"
        )
        _phases("driver", row["phases"])
    for row in result.get("search", []):
        rest = f"; between its phases {row['phases']:.2f} s" if row["phases"] else ""
        print(f"{row['engine']:5} {row['case']:16} from one to the next {row['between']:.2f} s (of {row['gaps']}){rest}")


def _phases(title: str, seconds: dict[str, float]) -> None:
    largest = sorted(((name, value) for name, value in seconds.items() if value >= 0.01), key=lambda item: -item[1])
    if largest:
        print(f"    {title}: " + ", ".join(f"{name} {value:.2f}" for name, value in largest))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--skip", nargs="*", choices=PARTS, default=[])
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout and nothing else")
    args = parser.parse_args()
    result = measure(args.repeats, args.skip, Console(stderr=True))
    if args.json:
        print(json.dumps(result))
    else:
        show(result)


if __name__ == "__main__":
    main()
