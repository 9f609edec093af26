"""Costs of the rows of a plan, their totals, and both as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from orchestrator.cost.estimate import Costs
from orchestrator.ledger.results import Ledger
from orchestrator.ledger.run_view import FINISHED
from orchestrator.specs.row import Row
from orchestrator.sweeps.cost import Cost, Sum
from orchestrator.sweeps.plan import NO_WEIGHTS, Plan, Planned
from orchestrator.tables import counted
from orchestrator.training.runtime import best_device

BUSY = 0.3
"""Other processes per core above which a probe counts as disturbed."""


def add_costs(plan: Plan, rows: Sequence[Row], costs: Costs, ledger: Ledger, workers: int | None = None) -> None:
    """Sets `cost` of every planned row and parent, and the totals of the plan."""
    by_id: dict[str, Row] = {}
    lineage: dict[str, list[str]] = {}
    for row in rows:
        current: Row | None = row if row.spec is not None else None
        above: list[str] = []
        while current is not None:
            by_id.setdefault(current.id, current)
            current = current.parent
            above += [] if current is None else [current.id]
        lineage[row.id] = above
    found = {name: costs.of(row, workers) for name, row in by_id.items()}
    plan.rows = [replace(each, cost=found[each.id]) for each in plan.rows]
    plan.parents = [replace(each, cost=found[each.id]) for each in plan.parents]
    every = (*plan.parents, *plan.rows)
    plan.totals = totals(plan.rows, plan.parents, found, _done(every, ledger), lineage, _never(every, ledger))


def totals(
    rows: Sequence[Planned],
    parents: Sequence[Planned],
    costs: Mapping[str, Cost],
    done: Collection[str],
    lineage: Mapping[str, Sequence[str]],
    never: Collection[str | None] = (),
) -> dict[str, Sum]:
    """Returns {"alone": every row by itself, with the rows that it starts from; "shared": equal work counted once; "done"; "left"}.

    done: keys of trainings, decodings and scores in the ledger. lineage: row -> the rows that it starts from. never: keys of work that no
    run does. Work without keys, whose data is absent, counts as distinct from all other work.
    """
    found = {name: Sum() for name in ("alone", "shared", "done", "left")}
    seen = {key for key in never if key is not None}

    def once(kind: str, key: str | None, cost: Cost | None) -> None:
        if key in seen:
            return
        if key is not None:
            seen.add(key)
        found["shared"].add(kind, cost)
        found["done" if key in done else "left"].add(kind, cost)

    for row in (*parents, *rows):
        once("train", row.keys.train, costs.get(row.id))
        for keys in (row.keys, *row.also.values()):
            once("decode", keys.decode, costs.get(row.id))
            once("score", keys.score, costs.get(row.id))
    for row in rows:
        for each in (row.id, *lineage.get(row.id, ())):
            found["alone"].add("train", costs.get(each))
        for keys in (row.keys, *row.also.values()):
            if keys.decode is None or keys.decode not in never:
                found["alone"].add("decode", costs.get(row.id))
                found["alone"].add("score", None)
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
    alone, shared, done, left = (plan.totals[name] for name in ("alone", "shared", "done", "left"))
    unit = "GPU-hours" if _on_gpu() else "core-hours"
    found = [
        f"{'every row by itself':<22}{_sum(alone, unit)}",
        f"{'equal work once':<22}{_sum(shared, unit)}{_saved(alone, shared)}",
        f"{'done':<22}{_sum(done, unit)}",
        f"{'left to do':<22}{_sum(left, unit)}",
    ]
    bases = Counter(row.cost.basis for row in (*plan.parents, *plan.rows) if row.cost is not None)
    of = {basis: counted(number, "run") for basis, number in bases.items()}
    if "not probed" in of:
        found.append(f"time of {of['not probed']}: not probed; nmt-ablate plan --probe measures it on this machine")
    if "not prepared" in of:
        found.append(f"operations and time of {of['not prepared']}: their data is not prepared; plan --probe prepares it")
    if "estimated" in of:
        found.append(f"~ time of {of['estimated']}: estimated, at the rate of the nearest architecture that was probed")
    if (others := max((row.cost.others or 0.0 for row in (*plan.parents, *plan.rows) if row.cost is not None), default=0.0)) >= BUSY:
        found.append(f"the machine was busy while this was measured ({others:.1f} others a core): it may take longer, or less")
    if scheduler is not None and scheduler.get("kind") == "asha" and left.trainings:
        found.append("ASHA stops runs early: what is left is for full budgets, which it uses less of")
    return found


def _on_gpu() -> bool:
    return best_device().type == "cuda"


def _sum(each: Sum, unit: str) -> str:
    parts = [", ".join((counted(each.trainings, "training"), counted(each.decodings, "decoding"), counted(each.scorings, "scoring")))]
    parts += [f"{each.flop:.3g} FLOP"] if each.flop else []
    if each.unknown < each.trainings + each.decodings:
        parts.append(f"{each.hours:.3g} {unit}" + (" and what is not known" if each.unknown else ""))
    return ", ".join(parts)


def _saved(alone: Sum, shared: Sum) -> str:
    if shared.trainings >= alone.trainings and shared.decodings >= alone.decodings:
        return ""
    times = (
        f"{alone.flop / shared.flop:.2f} times less" if shared.flop else f"{counted(alone.trainings - shared.trainings, 'training')} less"
    )
    return f" ({times})"


def duration(seconds: float | None) -> str:
    """Formats a duration: `45s`, `12m`, `3.5h`, `2.1d`."""
    if seconds is None:
        return "?"
    for limit, unit, size in ((90, "s", 1), (5400, "m", 60), (172_800, "h", 3600)):
        if seconds < limit:
            return f"{seconds / size:.3g}{unit}"
    return f"{seconds / 86400:.3g}d"


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
