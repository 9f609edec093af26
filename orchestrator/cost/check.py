"""Compares the estimates with the recorded seconds of finished runs in the ledger."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from orchestrator.cost.estimate import Costs
from orchestrator.cost.probes import machine
from orchestrator.ledger.results import Ledger
from orchestrator.specs.row import Row
from orchestrator.sweeps.cost import Cost
from orchestrator.sweeps.plan import Plan


def check(plan: Plan, rows: Sequence[Row], costs: Costs, ledger: Ledger) -> dict[str, Any]:
    """Returns {"runs": [...], "median": {"probed": {"train", "decode", "both"}, "estimated": {..}}, "left_out": reason -> runs}.

    Errors are |estimate - recorded| / recorded. "estimated" ignores the probe of the row's own architecture. Runs that are not comparable
    are left out: another processor, several workers, fused with others, or cut short.
    """
    by_id = {row.id: row for row in rows}
    runs: list[dict[str, Any]] = []
    left_out: dict[str, int] = {}
    seen: set[str] = set()
    for planned in plan.rows:
        train, decode = planned.keys.train, planned.keys.decode
        if train is None or decode is None or train in seen or (record := ledger.read_train(train)) is None:
            continue
        seen.add(train)
        row, decoded = by_id[planned.id], ledger.read_decode_record(train, decode)
        reason = _incomparable(record, ledger.read_capsule(train) or {}) or (None if decoded else "not decoded")
        cost = costs.of(row, 1)
        if reason is None and cost.train is None:
            reason = cost.basis
        if reason is not None:
            left_out[reason] = left_out.get(reason, 0) + 1
            continue
        assert decoded is not None
        other = costs.of(row, 1, without=cost.probe) if cost.basis == "probed" else cost
        real = {"train": record["seconds"] * _whole(record, cost), "decode": decoded["seconds"]}
        run: dict[str, Any] = {"id": planned.id, "seed": planned.seed, "recorded": real}
        for name, found in (("probed", cost if cost.basis == "probed" else None), ("estimated", other)):
            if found is not None and found.train is not None and found.decode is not None:
                run[name] = _errors({"train": found.train, "decode": found.decode}, real)
        runs.append(run)
    return {"runs": runs, "median": {name: _median(runs, name) for name in ("probed", "estimated")}, "left_out": left_out}


def _incomparable(record: dict[str, Any], capsule: dict[str, Any]) -> str | None:
    here = machine()
    if record["status"] != "done":
        return f"status {record['status']}"
    if record.get("world_size", 1) != 1:
        return "several workers"
    if record.get("fused_steps"):
        return "fused"
    of_run = capsule.get("cpu") if here["device"] == "cpu" else here["name"]
    same = str(capsule.get("device", "")).split(":")[0] == here["device"] and of_run == here["name"]
    return None if same else "another processor"


def _whole(record: dict[str, Any], cost: Cost) -> float:
    """Factor that scales a training that patience ended early to the estimated number of updates."""
    return (cost.updates or 1) / record["steps"] if record.get("steps") else 1.0


def _errors(estimate: dict[str, float], real: dict[str, float]) -> dict[str, Any]:
    both = {"estimate": {name: round(value, 3) for name, value in estimate.items()}}
    parts = {name: abs(estimate[name] - real[name]) / real[name] for name in real if real[name]}
    parts["both"] = abs(sum(estimate.values()) - sum(real.values())) / max(1e-9, sum(real.values()))
    return both | {"error": parts}


def _median(runs: Sequence[dict[str, Any]], name: str) -> dict[str, float] | None:
    errors = [run[name]["error"] for run in runs if name in run]
    parts = ("train", "decode", "both")
    return {part: statistics.median(e[part] for e in errors if part in e) for part in parts} if errors else None


def lines(found: dict[str, Any]) -> list[str]:
    """The result of `check` as text."""
    text = []
    for name, words in (("probed", "of rows that were probed"), ("estimated", "as if each row had not been probed")):
        median = found["median"][name]
        count = sum(name in run for run in found["runs"])
        if median is not None:
            parts = ", ".join(f"{part} {value:.1%}" for part, value in median.items())
            text.append(f"median relative error {words}: {parts} ({count} finished runs)")
    text += [f"left out: {count} runs, {reason}" for reason, count in found["left_out"].items()]
    return text or ["no finished runs to check against"]
