"""Chooses the architectures to probe and runs the probes, each in its own process and saved at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from orchestrator.cost import probes
from orchestrator.cost.estimate import Costs
from orchestrator.data.prepare import prepare
from orchestrator.paths import ROOT
from orchestrator.specs.row import Row

PROBES = 12
"""Default limit of new probes per call."""
TIME_LIMIT = 900.0


def choose(costs: Costs, rows: Sequence[Row], most: int) -> list[Row]:
    """At most `most` rows whose architectures have no probe, the most distant from all probed and chosen ones first."""
    candidates: dict[str, tuple[dict[str, Any], Row]] = {}
    for row in rows:
        about = costs.conditions(row)
        if about is not None and (key := probes.key_of(about)) not in costs.probes:
            candidates.setdefault(key, (about, row))
    known = [probe["about"] for probe in costs.probes.values()]
    left = {
        key: (min((probes.distance(about, k) for k in known if probes.comparable(about, k)), default=float("inf")), about, row)
        for key, (about, row) in candidates.items()
    }
    chosen: list[Row] = []
    while left and len(chosen) < most:
        key = max(left, key=lambda k: left[k][0])
        _, about, row = left.pop(key)
        chosen.append(row)
        for other, (far, its, its_row) in left.items():
            if probes.comparable(its, about):
                left[other] = (min(far, probes.distance(its, about)), its, its_row)
    return chosen


def probed(
    costs: Costs, rows: Sequence[Row], *, data_dir: Path | None, cache_dir: Path, most: int = PROBES, tell: Callable[[str], None]
) -> list[str]:
    """Prepares the data of all rows and runs the missing probes. Returns a line for each row whose probe failed."""
    lineage = [each for row in rows for each in _with_parents(row)]
    for data in {row.spec.data.model_dump_json(): row.spec.data for row in lineage if row.spec is not None}.values():
        if costs.data.manifest(data) is not None:
            prepare(data, data_dir, cache_dir)
    costs.forget()
    problems: list[str] = []
    chosen = choose(costs, lineage, most)
    for number, row in enumerate(chosen, start=1):
        tell(f"probe {number} of {len(chosen)}: {row.id}")
        about = costs.conditions(row)
        assert about is not None
        try:
            measures = _measured(row, data_dir, cache_dir, costs.results)
        except ProbeError as error:
            problems.append(f"{row.id}: probe failed: {error}")
            continue
        probes.write(costs.results, about, measures)
        costs.probes[probes.key_of(about)] = {"about": about, "measures": measures}
    return problems


def _with_parents(row: Row) -> Iterator[Row]:
    current: Row | None = row if row.spec is not None else None
    while current is not None:
        yield current
        current = current.parent


class ProbeError(Exception):
    """The process of a probe ended without an answer, for instance because memory ran out."""


def _measured(row: Row, data_dir: Path | None, cache_dir: Path, results: Path) -> dict[str, Any]:
    assert row.spec is not None
    request = {
        "spec": row.spec.model_dump(mode="json"),
        "data_dir": None if data_dir is None else str(data_dir.resolve()),
        "cache_dir": str(cache_dir.resolve()),
        "folder": str((results / probes.FOLDER).resolve()),
    }
    paths = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    command = [sys.executable, "-m", "orchestrator.cost.measure"]
    environment = os.environ | {"OMP_NUM_THREADS": str(row.spec.train.threads), "PYTHONPATH": paths}
    try:
        done = subprocess.run(command, input=json.dumps(request), capture_output=True, text=True, timeout=TIME_LIMIT, env=environment)
    except subprocess.TimeoutExpired:
        raise ProbeError(f"no answer within {TIME_LIMIT:g} seconds") from None
    if done.returncode:
        last = next((line for line in reversed(done.stderr.splitlines()) if line.strip()), "")
        ended = f"ended by signal {-done.returncode}" if done.returncode < 0 else last[:300]
        raise ProbeError(ended or f"exit code {done.returncode}")
    measures: dict[str, Any] = json.loads(done.stdout)
    return measures
