"""Asynchronous successive halving (Li et al. 2020) as deterministic, durable decisions, independent of Ray.

At each rung a run is compared with those that reached it before, and continues if it is among the best 1/eta of them. The first run always
continues. Decisions are stored in a sealed file, so a resumed sweep decides as the interrupted one did. A search refuses a changed file.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field, FiniteFloat, StrictBool, ValidationError

from orchestrator.errors import UserError
from orchestrator.files.canonical import digest
from orchestrator.files.documents import read_or_refuse, write_document
from orchestrator.safe_text import log_once
from orchestrator.specs.positions import display
from orchestrator.specs.sweep import LARGER_IS_BETTER

KEY = digest("decisions of a search")


class Decision(BaseModel):
    """run: `ROW:SEED`. key: of its training. value: None if it was not finite. cutoff: in the metric's own sign, None for the first."""

    run: str
    key: str | None = None
    value: FiniteFloat | None
    cutoff: float | None = None
    goes_on: StrictBool = Field(alias="continue")


class Decisions(BaseModel):
    """The file of a search. rungs: decisions in the order of arrival."""

    eta: float
    sign: float
    metric: str | None = None
    rungs: dict[int, list[Decision]]


class Asha:
    """rungs: steps. eta: reduction factor. pinned: runs that count in comparisons but are stopped only if their metric is not finite.

    keys: run -> key of its training. Runs of one training have one decision, and are pinned together. Decisions in the file by another
    rule or metric, or on a run with another key, do not hold.
    """

    def __init__(self, rungs: list[int], eta: float, metric: str, pinned: set[str], path: Path | None = None, keys: Any = None) -> None:
        self.rungs, self.eta, self.sign, self.path = sorted(rungs), eta, (1.0 if metric in LARGER_IS_BETTER else -1.0), path
        self.metric, self.keys = metric, dict[str, str](keys or {})
        pinned_keys = {self.keys.get(name) for name in pinned}
        self.pinned = pinned | {run for run, key in self.keys.items() if key in pinned_keys}
        self.records: dict[int, list[Decision]] = {rung: [] for rung in self.rungs}
        if path is not None and (known := _read(path)) is not None:
            if (known.eta, known.sign, known.metric or metric) == (eta, self.sign, metric):
                for rung in self.records.keys() & known.rungs.keys():
                    self.records[rung] = [one for one in known.rungs[rung] if one.key in (None, self.keys.get(one.run, one.key))]
            if self.records != known.rungs:
                self._write()

    def decide(self, run: str, rung: int, value: float) -> bool:
        """Returns whether the run continues after the rung. Repeated calls return the first decision."""
        if rung not in self.records:  # the checkpoint of a scheduler with other rungs repeats its report
            return True
        earlier = self.records[rung]
        key = self.keys.get(run)
        if (known := next((record for record in earlier if record.run == run or (key and record.key == key)), None)) is not None:
            return known.goes_on
        finite = isinstance(value, (int, float)) and math.isfinite(value)
        cutoff = self._cutoff([record.value for record in earlier if record.value is not None])
        promoted = finite and (cutoff is None or self.sign * value >= cutoff or run in self.pinned)
        told = None if cutoff is None else self.sign * cutoff
        about = {"run": run, "key": key, "value": float(value) if finite else None, "cutoff": told, "continue": promoted}
        earlier.append(Decision.model_validate(about))
        try:
            self._write()
        except BaseException:
            earlier.pop()  # not durable: the next call decides
            raise
        return promoted

    def _write(self) -> None:
        if self.path is not None:
            file = Decisions(eta=self.eta, sign=self.sign, metric=self.metric, rungs=self.records)
            write_document(self.path, file.model_dump(mode="json", by_alias=True), KEY, points="asha")

    def stopped(self) -> dict[str, int]:
        """Returns the rung of each run that was stopped, with the other runs of its training."""
        by_key = {record.key: rung for rung, records in self.records.items() for record in records if not record.goes_on}
        return {run: by_key[key] for run, key in self.keys.items() if key in by_key} | _stopped(self.records)

    def _cutoff(self, values: list[float]) -> float | None:
        """The (1 - 1/eta) quantile of earlier values, linearly interpolated. Equal values continue."""
        if not values:
            return None
        ordered = sorted(self.sign * v for v in values)
        position = (1.0 - 1.0 / self.eta) * (len(ordered) - 1)
        low = math.floor(position)
        high = min(low + 1, len(ordered) - 1)
        return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


def goes_on(asha: Asha | None, rung: Mapping[str, Any]) -> bool:
    """Returns whether a run continues after a rung, given as its name (`run`) and its metrics. Without `asha` every run continues."""
    return asha is None or asha.decide(rung["run"], int(rung["rung"]), rung.get(asha.metric, math.nan))


def stopped_runs(path: Path) -> dict[str, int]:
    """Returns the rung of each run that the search in this file has stopped; {} without a file, and with a warning for a damaged one."""
    try:
        known = _read(path)
    except UserError as error:
        log_once(f"warning: {error}")
        known = None
    return {} if known is None else _stopped(known.rungs)


def _read(path: Path) -> Decisions | None:
    """Returns the decisions in a file; None if there is no file. UserError: it is damaged, so a search could decide differently."""
    expected = "the decisions as the sweep wrote them, or no file"
    document = read_or_refuse(path, expected)
    try:
        return None if document is None else Decisions.model_validate(document)
    except ValidationError:
        raise UserError(f"{display(path)}: holds no decisions of a search; expected {expected}") from None


def _stopped(rungs: Mapping[int, list[Decision]]) -> dict[str, int]:
    return {record.run: rung for rung, records in rungs.items() for record in records if not record.goes_on}
