"""Mutation testing: makes one small wrong change at a time in a copy of the checkout and runs the related tests.

    python benchmarks/mutation.py [--only AREA ...] [--json]

An area is a file of `benchmarks/mutants/`: a list of {what, file, find, replace, tests}. `find` occurs once in `file`; `tests` are pytest's
arguments. A mutant is killed if a test fails and survives if all pass; a survivor is behaviour that no test checks.
The exit code is 1 if a mutant survived.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from importlib.util import cache_from_source
from pathlib import Path
from typing import Any

import yaml

sys.path[:0] = [str(Path(__file__).resolve().parent / "peers"), str(Path(__file__).resolve().parent)]
from report import progress_bar  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
MUTANTS = ROOT / "benchmarks" / "mutants"
FIELDS = {"what", "file", "find", "replace", "tests"}
LEFT_OUT = (".venv", ".git", ".cache", "results", ".data-cache", "mlruns", ".mypy_cache", ".ruff_cache", ".peers", ".mlflow-server")
OUTCOMES = {0: "survived", 1: "killed"}
LIMIT = 600.0  # seconds for one mutant's tests


def load(area: str, root: Path = ROOT) -> list[dict[str, Any]]:
    """Loads the mutants of an area and checks each against the checkout. Raises SystemExit naming an invalid entry."""
    path = MUTANTS / f"{area}.yaml"
    entries = yaml.safe_load(path.read_text())
    for number, entry in enumerate(entries, start=1):
        where = f"{path.name}, entry {number}"
        if set(entry) != FIELDS or not isinstance(entry["tests"], list) or not entry["tests"]:
            raise SystemExit(f"error: {where}: has {', '.join(entry)}; expected {', '.join(sorted(FIELDS))}, tests a list")
        target = root / entry["file"]
        found = target.read_text().count(entry["find"]) if target.is_file() else None
        if found != 1:
            raise SystemExit(f"error: {where} ({entry['what']}): {entry['file']} {_times(found)}; expected exactly one {entry['find']!r}")
        if entry["find"] == entry["replace"]:
            raise SystemExit(f"error: {where} ({entry['what']}): find and replace are the same")
    return entries


def _times(found: int | None) -> str:
    return "is no file" if found is None else f"holds it {found} times"


def run(tests: list[str], copy: Path) -> tuple[str, str, float]:
    """Runs tests in the copy; returns (outcome, the line of pytest's output that says why, seconds)."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    started = time.monotonic()
    try:
        done = subprocess.run(command, cwd=copy, env=os.environ | {"PYTHONPATH": str(copy)}, capture_output=True, text=True, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        return f"no end within {LIMIT:g} s", "", time.monotonic() - started
    lines = [*done.stderr.splitlines(), *done.stdout.strip().splitlines()] or [""]
    said = next((line for line in reversed(lines) if line.startswith(("FAILED", "ERROR"))), lines[-1])
    return OUTCOMES.get(done.returncode, f"pytest's exit code {done.returncode}"), said, time.monotonic() - started


def outcome(mutant: dict[str, Any], copy: Path) -> dict[str, Any]:
    """Tests one mutant, restores the copy, and returns the record.

    The compiled file is deleted, because a source of the same size and second would not be recompiled.
    """
    path = copy / mutant["file"]
    before = path.read_text()
    compiled = Path(cache_from_source(str(path)))
    try:
        path.write_text(before.replace(mutant["find"], mutant["replace"]))
        compiled.unlink(missing_ok=True)
        result, said, seconds = run(mutant["tests"], copy)
    finally:
        path.write_text(before)
        compiled.unlink(missing_ok=True)
    return {"what": mutant["what"], "file": mutant["file"], "outcome": result, "said": said, "seconds": round(seconds, 1)}


def main() -> int:
    areas = sorted(path.stem for path in MUTANTS.glob("*.yaml"))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=areas, metavar="AREA", help=", ".join(areas))
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout and nothing else")
    args = parser.parse_args()
    mutants = {area: load(area) for area in args.only or areas}

    records: dict[str, list[dict[str, Any]]] = {}
    bar, step = progress_bar(sum(map(len, mutants.values())))
    with tempfile.TemporaryDirectory(prefix="mutation-") as scratch, bar:
        copy = Path(scratch) / "checkout"
        shutil.copytree(ROOT, copy, ignore=lambda folder, names: {"__pycache__", *(LEFT_OUT if Path(folder) == ROOT else ())} & {*names})
        done = 0
        for area, entries in mutants.items():
            step(f"{area}: unchanged", done)
            result, said, _ = run(sorted({test for entry in entries for test in entry["tests"]}), copy)
            if result != "survived":
                raise SystemExit(f"error: {area}: the tests do not pass on the unchanged checkout: {said or result}")
            records[area] = []
            for entry in entries:
                records[area].append(outcome(entry, copy))
                done += 1
                step(f"{area}: {records[area][-1]['outcome']}: {entry['what']}", done)
    if args.json:
        print(json.dumps({"areas": records}, indent=1))
    else:
        show(records)
    return int(any(one["outcome"] == "survived" for area in records.values() for one in area))


def show(records: dict[str, list[dict[str, Any]]]) -> None:
    table = Table("area", "mutants", "killed", "survived", "neither", box=None, header_style="bold", pad_edge=False)
    console = Console(file=sys.stdout, width=None if sys.stdout.isatty() else 150, highlight=False)
    for area, each in records.items():
        outcomes = [one["outcome"] for one in each]
        killed, survived = outcomes.count("killed"), outcomes.count("survived")
        table.add_row(area, *map(str, (len(each), killed, survived, len(each) - killed - survived)))
    console.print(table)
    for area, each in records.items():
        for one in each:
            if one["outcome"] != "killed":
                console.print(f"  {area}: {one['outcome']}: {one['file']}: {one['what']}", soft_wrap=True)


if __name__ == "__main__":
    raise SystemExit(main())
