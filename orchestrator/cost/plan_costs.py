"""Costs of the rows of a plan, their totals, and both as text."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from orchestrator.cost.estimate import Cost
from orchestrator.ledger.run_view import FINISHED
from orchestrator.sweeps.forecast import duration
from orchestrator.sweeps.memory import gigabytes
from orchestrator.sweeps.plan import Planned
from orchestrator.tables import counted
from orchestrator.training.runtime import best_device


@dataclass
class Sum:
    """trainings, decodings, scorings: counts. flop, hours: operations, device-hours of trainings with an estimate; unknown: the others."""

    trainings: int = 0
    decodings: int = 0
    scorings: int = 0
    flop: float = 0.0
    hours: float = 0.0
    unknown: int = 0

    def add(self, kind: str, cost: Cost) -> None:
        setattr(self, kind, getattr(self, kind) + 1)
        if kind == "trainings":
            self.flop += cost.flop or 0.0
            self.hours += (cost.seconds or 0.0) * cost.devices / 3600
            self.unknown += cost.seconds is None

    def as_json(self) -> dict[str, Any]:
        return {**vars(self), "hours": round(self.hours, 6)}

    def __str__(self) -> str:
        parts = [counted(self.trainings, "training"), counted(self.decodings, "decoding"), counted(self.scorings, "scoring")]
        parts += [f"{self.flop:.3g} FLOP"] if self.flop else []
        if self.unknown < self.trainings:
            unit = "GPU-hours" if best_device().type == "cuda" else "core-hours"
            parts.append(f"{self.hours:.3g} {unit} of training" + (" and what is not known" if self.unknown else ""))
        return ", ".join(parts)


def totals(runs: Iterable[Planned], costs: Mapping[str, Cost]) -> dict[str, Sum]:
    """Returns {"shared": all work, equal work counted once; "done"; "left"}. costs: by row.

    Diverged trainings are never decoded. Work without keys, whose data is absent, counts as distinct from all other work.
    """
    found = {name: Sum() for name in ("shared", "done", "left")}
    seen: set[str] = set()
    runs = list(runs)
    done = {key for run in runs for _, key, is_done in _work(run) if is_done}
    for run in runs:
        for kind, key, _ in _work(run):
            if key not in seen:
                found["shared"].add(kind, costs[run.id])
                found["done" if key in done else "left"].add(kind, costs[run.id])
                seen |= set() if key is None else {key}
    return found


def _work(run: Planned) -> list[tuple[str, str | None, bool]]:
    """Kind, key and whether the ledger has it of a run's training, decodings and scorings."""
    trained = run.trained in FINISHED
    scorings = {} if run.trained == "diverged" else {"": run.keys, **run.also}
    each = [(name, kind, key) for name, k in scorings.items() for kind, key in (("decodings", k.decode), ("scorings", k.score))]
    return [("trainings", run.keys.train, trained), *((kind, key, trained and name in run.scored) for name, kind, key in each)]


def lines(sums: Mapping[str, Sum], costs: Iterable[Cost], scheduler: dict[str, Any] | None = None) -> list[str]:
    names = {"shared": "equal work once", "done": "done", "left": "left to do"}
    found = [f"{name:<17}{sums[key]}" for key, name in names.items()]
    of = {basis: counted(number, "run") for basis, number in Counter(cost.basis for cost in costs).items()}
    if "not probed" in of:
        found.append(f"time of {of['not probed']}: not probed; nmt-ablate plan --probe measures it on this machine")
    if "not prepared" in of:
        found.append(f"operations and time of {of['not prepared']}: their data is not prepared; plan --probe prepares it")
    if "estimated" in of:
        found.append(f"~ time of {of['estimated']}: estimated, at the rate of the nearest architecture that was probed")
    if scheduler is not None and scheduler.get("kind") == "asha" and sums["left"].trainings:
        found.append("ASHA stops runs early: what is left is for full budgets, which it uses less of")
    return found


def short(cost: Cost) -> tuple[str, str, str, str]:
    """FLOP per update, total FLOP, time and memory as table cells, with ~ for estimated and ? for unknown."""
    near = "~" if cost.basis == "estimated" else ""
    flop = ["?" if value is None else f"{value:.2g}" for value in (cost.flop_update, cost.flop)]
    bound = "~" if best_device().type == "cuda" else "<"  # see `memory.PROCESS`
    room = "?" if cost.room is None else bound + gigabytes(cost.room)
    memory = room if cost.memory is None else gigabytes(cost.memory)
    return flop[0], flop[1], "?" if cost.seconds is None else near + duration(cost.seconds), memory
