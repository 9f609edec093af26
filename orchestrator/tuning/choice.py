"""The result of a search: a record for each arm in the ledger, and the rows `ROW@tuned` that it gives."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from orchestrator.errors import UserError
from orchestrator.files.canonical import digest
from orchestrator.ledger.results import Ledger, Record
from orchestrator.report.find import Finder
from orchestrator.specs.controls import TUNED
from orchestrator.specs.row import Row
from orchestrator.specs.tune import TuneSpec
from orchestrator.tuning.search import Arm, Search, cost
from orchestrator.tuning.trials import changed


def record_of(arm: Arm, search: Search) -> Record:
    """The record of an arm: its trials with their draws, runs and values, and the number of the chosen one.

    {"key", "row", "tune", "trials": [{"number", "draws", "changes", "runs", "statuses", "value", "ended", "updates", "seconds"}],
    "chosen", "updates", "seconds", "warnings", "time"}. value: mean over the search seeds. chosen: None if no trial ended well.
    """
    spec, trials, better = search.spec, list[dict[str, Any]](), None
    for trial in arm.trials:
        keys, value = search.keys(trial), None if trial.number in arm.ended else search.final(trial)
        updates, seconds = cost(search.ledger, keys)
        about: dict[str, Any] = {"number": trial.number, "draws": trial.draws, "changes": trial.changes, "value": value}
        about |= {"runs": {str(seed): key for seed, key in keys.items()}, "statuses": search.statuses(trial)}
        trials.append(about | {"ended": arm.ended.get(trial.number), "updates": updates, "seconds": round(seconds, 1)})
        if value is not None and (better is None or (value > better[0] if spec.larger_is_better else value < better[0])):
            better = (value, trial.number)
    section = plain(spec)
    return {
        "key": digest([section, trials[0]["runs"]]),
        "row": arm.row.id,
        "tune": section,
        "trials": trials,
        "chosen": None if better is None else better[1],
        "updates": sum(each["updates"] for each in trials),
        "seconds": round(sum(each["seconds"] for each in trials), 1),
        "warnings": warnings(trials, None if better is None else better[1], spec),
        "time": round(time.time(), 3),
    }


def warnings(trials: Sequence[Mapping[str, Any]], chosen: int | None, spec: TuneSpec) -> list[str]:
    """Reasons to doubt that the search of an arm has found its best configuration."""
    if chosen is None:
        return ["no trial ended well: the row stays as it is written"]
    found = []
    finished = [trial for trial in trials if trial["value"] is not None]
    whole = [trial for trial in trials if trial["value"] is not None or trial["ended"] is not None]
    if len(whole) < spec.trials:
        found.append(f"{len(whole)} of {spec.trials} trials ended well")
    for name, value in trials[chosen]["draws"].items():
        if (end := spec.draws[name].edge(value)) is not None:
            found.append(f"{name}: the best value, {value:g}, lies on the edge of its space ({end})")
    if chosen == spec.trials - 1 and len(finished) > 1:
        found.append("the last trial was the best: more trials may find a better one")
    return found


def write(ledger: Ledger, record: Record) -> None:
    """Writes the record into the folder of trial 0's first run; nothing if that has the same search with the same result."""
    train = next(iter(record["trials"][0]["runs"].values()))
    known = next((each for each in ledger.records(train, "search") if each["key"] == record["key"]), None)
    if known is None or _content(known) != _content(record):
        ledger.write_search(train, record["key"], record)


def _content(record: Mapping[str, Any]) -> dict[str, Any]:
    trials = [{name: value for name, value in trial.items() if name != "seconds"} for trial in record["trials"]]
    return {name: record[name] for name in ("chosen", "tune")} | {"trials": trials}


def searches(row: Row, finder: Finder) -> list[Record]:
    """The searches of a row, the latest first. UserError if a record was changed: its key is not that of its trials."""
    ledger = finder.ledger
    found = [record for key in finder.trials(row) for record in ledger.records(key, "search")]
    for record in found:
        if record["key"] != digest([record["tune"], record["trials"][0]["runs"]]):
            raise UserError(
                f"{row.id}: the search {record['key'][:16]} has another key than its content; expected it as `sweep --tune` wrote it"
            )
    return sorted(found, key=lambda record: (-float(record["time"]), record["key"]))


def tuned_rows(rows: Sequence[Row], finder: Finder, section: TuneSpec | None) -> tuple[dict[str, Any] | None, list[Row]]:
    """The rows that a search has tuned, under their own names with the chosen values, and its section as plain data.

    section: that of the file; None, or one without a search: the latest of the ledger. Rows that it did not search are left out.
    """
    found = {row.id: searches(row, finder) for row in rows if row.kind == "run" and row.spec is not None}
    every = sorted((record for own in found.values() for record in own), key=lambda record: -float(record["time"]))
    if not every:
        return None, []
    wanted = None if section is None else plain(section)
    used = wanted if any(record["tune"] == wanted for record in every) else every[0]["tune"]
    tuned = [(row, record) for row in rows for record in found.get(row.id, ()) if record["tune"] == used]
    chosen = {row.id: (row, record) for row, record in reversed(tuned)}
    return used, [changed(row, _changes(chosen[row.id][1]), row.id) for row in rows if row.id in chosen]


def tuned_row(row: Row, finder: Finder, section: TuneSpec | None) -> Row:
    """The row `ROW@tuned`. UserError if no search has tuned it."""
    _, found = tuned_rows([row], finder, section)
    if not found:
        raise UserError(f"{row.id}{TUNED}: no search has tuned this row; run: nmt-ablate sweep TABLE --tune, with the same options")
    return named(found[0])


def apply(row: Row, record: Mapping[str, Any]) -> Row:
    """The row `ROW@tuned` of a search; as written if no trial ended well."""
    return named(changed(row, _changes(record), row.id))


def named(row: Row) -> Row:
    """A tuned row under the name `ROW@tuned`."""
    return replace(row, id=f"{row.id}{TUNED}", label=f"{row.label or row.id}, tuned", pinned=False)


def plain(section: TuneSpec) -> dict[str, Any]:
    return section.model_dump(mode="json", exclude_none=True)


def _changes(record: Mapping[str, Any]) -> dict[str, Any]:
    chosen = record["chosen"]
    return {} if chosen is None else dict(record["trials"][chosen]["changes"])
