"""Costs of the rows of a plan, their totals, and both as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any

from orchestrator.cost.estimate import Costs
from orchestrator.ledger.results import Ledger
from orchestrator.ledger.run_view import FINISHED
from orchestrator.specs.row import Row
from orchestrator.sweeps.cost import Cost, Sum
from orchestrator.sweeps.forecast import duration
from orchestrator.sweeps.plan import NO_WEIGHTS, Plan, Planned, ancestors
from orchestrator.tables import counted
from orchestrator.training.runtime import best_device


def add_costs(plan: Plan, rows: Sequence[Row], costs: Costs, ledger: Ledger, workers: int | None = None) -> None:
    """Sets `cost` of every planned row and parent, and the totals of the plan."""
    by_id = {each.id: each for row in rows for each in (*ancestors(row), row) if each.spec is not None}
    found = {name: costs.of(row, workers) for name, row in by_id.items()}
    plan.rows = [replace(each, cost=found[each.id]) for each in plan.rows]
    plan.parents = [replace(each, cost=found[each.id]) for each in plan.parents]
    every = (*plan.parents, *plan.rows)
    plan.totals = totals(every, _done(every, ledger), _never(every, ledger))


def totals(rows: Iterable[Planned], done: Collection[str], never: Collection[str | None] = ()) -> dict[str, Sum]:
    """Returns {"shared": all work, equal work counted once; "done"; "left"}.

    done: keys of trainings, decodings and scores in the ledger. never: keys of work that no run does. Work without keys, whose data is
    absent, counts as distinct from all other work.
    """
    found = {name: Sum() for name in ("shared", "done", "left")}
    seen = {key for key in never if key is not None}
    for row in rows:
        scorings = (row.keys, *row.also.values())
        work = [("train", row.keys.train), *((kind, getattr(keys, kind)) for keys in scorings for kind in ("decode", "score"))]
        for kind, key in work:
            if key is None or key not in seen:
                found["shared"].add(kind, row.cost)
                found["done" if key in done else "left"].add(kind, row.cost)
                seen |= set() if key is None else {key}
    return found


def _done(rows: Iterable[Planned], ledger: Ledger) -> set[str]:
    """Keys of trainings, decodings and scores in the ledger that are not done again."""
    found: set[str] = set()
    for row in rows:
        train = row.keys.train
        if train is None or row.reason == NO_WEIGHTS:
            continue
        if train not in found and ((record := ledger.read_train(train)) is None or record["status"] not in FINISHED):
            continue
        found.add(train)
        for keys in (row.keys, *row.also.values()):
            if keys.decode is None or keys.score is None:
                continue
            if keys.score not in found and ledger.read_score(train, keys.score) is not None:
                found |= {keys.decode, keys.score}
            if keys.decode not in found and ledger.read_decode(train, keys.decode) is not None:
                found.add(keys.decode)
    return found


def _never(rows: Iterable[Planned], ledger: Ledger) -> set[str | None]:
    """Keys of the decodings and scores of trainings that diverged."""
    diverged = [row for row in rows if row.keys.train and (ledger.read_train(row.keys.train) or {}).get("status") == "diverged"]
    return {key for row in diverged for keys in (row.keys, *row.also.values()) for key in (keys.decode, keys.score)}


def lines(plan: Plan, scheduler: dict[str, Any] | None = None) -> list[str]:
    """The totals as text."""
    if not plan.totals:
        return []
    names = {"shared": "equal work once", "done": "done", "left": "left to do"}
    found = [f"{name:<17}{_sum(plan.totals[key])}" for key, name in names.items()]
    bases = Counter(row.cost.basis for row in (*plan.parents, *plan.rows) if row.cost is not None)
    of = {basis: counted(number, "run") for basis, number in bases.items()}
    if "not probed" in of:
        found.append(f"time of {of['not probed']}: not probed; nmt-ablate plan --probe measures it on this machine")
    if "not prepared" in of:
        found.append(f"operations and time of {of['not prepared']}: their data is not prepared; plan --probe prepares it")
    if "estimated" in of:
        found.append(f"~ time of {of['estimated']}: estimated, at the rate of the nearest architecture that was probed")
    if scheduler is not None and scheduler.get("kind") == "asha" and plan.totals["left"].trainings:
        found.append("ASHA stops runs early: what is left is for full budgets, which it uses less of")
    return found


def _sum(each: Sum) -> str:
    parts = [counted(each.trainings, "training"), counted(each.decodings, "decoding"), counted(each.scorings, "scoring")]
    parts += [f"{each.flop:.3g} FLOP"] if each.flop else []
    if each.unknown < each.trainings + each.decodings:
        unit = "GPU-hours" if _on_gpu() else "core-hours"
        parts.append(f"{each.hours:.3g} {unit}" + (" and what is not known" if each.unknown else ""))
    return ", ".join(parts)


def _on_gpu() -> bool:
    return best_device().type == "cuda"


def short(cost: Cost | None) -> tuple[str, str, str, str]:
    """FLOP per update, total FLOP, time and memory as table cells, with ~ for estimated and ? for unknown."""
    if cost is None:
        return "", "", "", ""
    near = "~" if cost.basis == "estimated" else ""
    flop = ["?" if value is None else f"{value:.2g}" for value in (cost.flop_update, cost.flop)]
    bound = "~" if _on_gpu() else "<"  # see `memory.PROCESS`
    room = "?" if cost.room is None else f"{bound}{cost.room / 2**30:.2g}G"
    memory = room if cost.memory is None else f"{cost.memory / 2**30:.2g}G"
    return flop[0], flop[1], "?" if cost.seconds is None else near + duration(cost.seconds), memory
