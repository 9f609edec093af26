"""Asynchronous successive halving (Li et al. 2020) as deterministic, durable decisions, independent of Ray.

At each rung a run is compared with those that reached it before, and continues if it is among the best 1/eta of them, or worse than these
by no more than a tolerance. The first run always continues. Decisions are stored in a file, so that a resumed sweep decides as the
interrupted one did.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from orchestrator.errors import UserError
from orchestrator.files import atomic
from orchestrator.specs.positions import display


class Asha:
    """rungs: steps. eta: reduction factor. pinned: runs that count in comparisons but are stopped only if their metric is not finite.

    tolerance: how much worse than the cutoff a run may be, in the metric's units; at all rungs, or for each rung.
    """

    def __init__(
        self,
        rungs: list[int],
        eta: float,
        mode: str,
        pinned: set[str],
        path: Path | None = None,
        tolerance: float | Mapping[str, float] = 0.0,
    ) -> None:
        self.rungs, self.eta, self.sign, self.pinned, self.path = sorted(rungs), eta, (1.0 if mode == "max" else -1.0), pinned, path
        self.tolerance = {rung: float(tolerance[str(rung)] if isinstance(tolerance, Mapping) else tolerance) for rung in self.rungs}
        self.records: dict[int, list[dict[str, Any]]] = {rung: [] for rung in self.rungs}
        if path is not None and path.exists():
            try:
                self._load(json.loads(path.read_bytes()))
            except (ValueError, KeyError, TypeError, AttributeError):
                raise UserError(
                    f"{display(path)}: holds no decisions of a search; expected the file as the sweep wrote it, or none"
                ) from None

    def decide(self, run: str, rung: int, value: float) -> bool:
        """Returns whether the run continues after the rung. Repeated calls return the first decision."""
        earlier = self.records[rung]
        for record in earlier:
            if record["run"] == run:
                return bool(record["continue"])
        finite = isinstance(value, (int, float)) and math.isfinite(value)
        cutoff = self._cutoff([r["value"] for r in earlier if r["value"] is not None])
        promoted = finite and (cutoff is None or self.sign * value >= cutoff - self.tolerance[rung] or run in self.pinned)
        earlier.append(
            {
                "run": run,
                "value": float(value) if finite else None,
                "cutoff": None if cutoff is None else self.sign * cutoff,
                "continue": promoted,
            }
        )
        self._save()
        return promoted

    def stopped(self) -> dict[str, int]:
        """The rung of each stopped run."""
        return {r["run"]: rung for rung, records in self.records.items() for r in records if not r["continue"]}

    def _cutoff(self, values: list[float]) -> float | None:
        """The (1 - 1/eta) quantile of earlier values, linearly interpolated. Equal values continue."""
        if not values:
            return None
        ordered = sorted(self.sign * v for v in values)
        position = (1.0 - 1.0 / self.eta) * (len(ordered) - 1)
        low = math.floor(position)
        high = min(low + 1, len(ordered) - 1)
        return ordered[low] + (ordered[high] - ordered[low]) * (position - low)

    def _save(self) -> None:
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            record = {"eta": self.eta, "sign": self.sign, "rungs": {str(k): v for k, v in self.records.items()}}
            if any(self.tolerance.values()):
                record["tolerance"] = {str(rung): value for rung, value in self.tolerance.items()}
            atomic.write_json(self.path, record, points="asha")

    def _load(self, data: dict[str, Any]) -> None:
        if data["eta"] == self.eta and data["sign"] == self.sign:
            for rung, records in data["rungs"].items():
                if self.tolerance.get(int(rung)) == data.get("tolerance", {}).get(rung, 0.0):
                    self.records[int(rung)] = [_checked(record) for record in records]


def stopped_runs(path: Path) -> dict[str, int]:
    """The rung of each run (`ROW:SEED`) that the search in this file has stopped; {} where there is none that can be read."""
    try:
        rungs = json.loads(path.read_bytes())["rungs"]
        return {str(record["run"]): int(rung) for rung, records in rungs.items() for record in records if not record["continue"]}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _checked(record: dict[str, Any]) -> dict[str, Any]:
    """Returns the record if it is valid, else raises ValueError, KeyError, TypeError or AttributeError."""
    value = record["value"]
    if not isinstance(record["run"], str) or not isinstance(record["continue"], bool) or not (value is None or math.isfinite(value)):
        raise ValueError
    return record
