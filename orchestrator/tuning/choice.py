"""The result of a search: a record per arm in the ledger, and the rows `ROW@tuned` from these records."""

import math
import operator
import time
from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from typing import Any

from orchestrator.errors import UserError
from orchestrator.files.canonical import digest
from orchestrator.ledger.results import Ledger, Record
from orchestrator.report.find import Finder
from orchestrator.specs.controls import TUNED
from orchestrator.specs.row import Row, Trial, short_id
from orchestrator.specs.sweep import LARGER_IS_BETTER
from orchestrator.specs.tune import Draw, TuneSpec
from orchestrator.tuning.search import Arm, Search, cost
from orchestrator.tuning.trials import changed, place


def record_of(arm: Arm, search: Search) -> Record:
    """Returns the record of an arm: its trials with their draws, runs and values, and the number of the chosen trial.

    {"key", "row", "tune", "written", "trials": [{"number", "draws", "changes", "runs", "statuses", "value", "scores", "ended", "at_rung",
    ..}], "chosen", "updates", "seconds", "time"}. value: mean over the search seeds. scores: see `Search.scores`. written: the row's own
    values of the keys that trials change. ended: the rung that ended the trial. chosen: None if no trial ended well. updates, seconds: of
    each run once.
    """
    spec, trials = search.spec, list[dict[str, Any]]()
    for trial in arm.trials:
        keys, value = search.keys(trial), None if trial.number in arm.ended else search.final(trial)
        updates, seconds = cost(search.ledger, keys.values())
        about: dict[str, Any] = {"number": trial.number, "draws": trial.draws, "changes": trial.changes, "value": value}
        about |= {"runs": {str(seed): key for seed, key in keys.items()}, "statuses": search.statuses(trial)}
        about["scores"] = {} if value is None else search.scores(trial)
        ended = arm.ended.get(trial.number)
        about |= {"ended": ended, "at_rung": None if ended is None else search.at_rung(trial, ended)}
        trials.append(about | {"updates": updates, "seconds": round(seconds, 1)})
    section, chosen = plain(spec), best(trials, spec.select)
    updates, seconds = cost(search.ledger, dict.fromkeys(key for each in trials for key in each["runs"].values()))
    return {
        "key": digest([section, trials[0]["runs"]]),
        "row": arm.row.id,
        "tune": section,
        "written": written(arm),
        "trials": trials,
        "chosen": chosen,
        "updates": updates,
        "seconds": round(seconds, 1),
        "time": round(time.time(), 3),
    }


def best(trials: Sequence[Mapping[str, Any]], select: str) -> int | None:
    """Returns the number of the trial with the best value, the first on ties; None if no trial has a value."""
    values = losses(trials, select)
    return None if math.isinf(min(values)) else int(trials[values.index(min(values))]["number"])


def losses(trials: Sequence[Mapping[str, Any]], select: str) -> tuple[float, ...]:
    """Returns the objective of each trial, which the choice minimises: its value, negated if larger is better; infinite without a value."""
    sign = -1.0 if select in LARGER_IS_BETTER else 1.0
    return tuple(math.inf if trial["value"] is None else sign * float(trial["value"]) for trial in trials)


def written(arm: Arm) -> dict[str, Any]:
    """Returns key path -> the row's own value, for every path that a trial changes."""
    data = arm.row.run_spec.model_dump()
    paths = dict.fromkeys(path for trial in arm.trials for path in trial.changes)
    return {path: operator.getitem(*place(data, path)) for path in paths}


def warnings(record: Record) -> list[str]:
    """Returns reasons to doubt that an arm's search has found the best configuration."""
    trials, chosen, section = record["trials"], record["chosen"], record["tune"]
    if chosen is None:
        return ["no trial ended well: the row stays as it is written"]
    found = []
    finished = [trial for trial in trials if trial["value"] is not None]
    whole = [trial for trial in trials if trial["value"] is not None or trial["ended"] is not None]
    if len(whole) < section["trials"]:
        found.append(f"{len(whole)} of {section['trials']} trials ended well")
    for name, value in trials[chosen]["draws"].items():
        draw = Draw.model_validate((section["space"] | section["own"])[name])
        if (end := draw.edge(value)) is not None:
            what = "value" if draw.factor is None else "factor"
            found.append(f"{name}: the best {what}, {value:g}, lies on the edge of its space ({end})")
    if chosen == section["trials"] - 1 and len(finished) > 1:
        found.append("the last trial was the best: more trials may find a better one")
    return found


def write(ledger: Ledger, record: Record) -> None:
    """Writes the record into the folder of trial 0's first run, unless the latest one there is the same search with the same result."""
    train = next(iter(record["trials"][0]["runs"].values()))
    latest = max(ledger.records(train, "search"), key=operator.itemgetter("time"), default=None)
    if latest is None or content(latest) != content(record):
        ledger.write_record(train, "search", record["key"], record)


def content(record: Mapping[str, Any], without: Container[str] = ("seconds",)) -> dict[str, Any]:
    """Returns what a search found. without: what to leave out of its trials; by default the timings."""
    trials = [{name: value for name, value in trial.items() if name not in without} for trial in record["trials"]]
    return {"chosen": record["chosen"], "tune": section_of(record), "trials": trials}


def section_of(record: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the section of a search. Older records have its judging seeds too."""
    seeds = {"search": record["tune"]["seeds"]["search"]}
    return {**record["tune"], "seeds": seeds}


def used(rows: Sequence[Row], finder: Finder, section: TuneSpec | None) -> dict[str, Record]:
    """Returns row -> its search, in the order of the rows. All searches are of one section; rows without a search are left out.

    section: the file's section. If it is None or has no search, the latest section in the ledger is used.
    """
    found: dict[str, list[Record]] = {}
    for row in (row for row in rows if row.kind == "run" and row.spec is not None):
        own = [record for key in finder.trials(row) for record in finder.ledger.records(key, "search")]
        found[row.id] = sorted(own, key=lambda record: (-float(record["time"]), record["key"]))
    every = sorted((record for own in found.values() for record in own), key=lambda record: -float(record["time"]))
    wanted = None if section is None else plain(section)
    chosen = wanted if any(section_of(record) == wanted for record in every) else section_of(every[0]) if every else None
    latest = {row: next((record for record in its if section_of(record) == chosen), None) for row, its in found.items()}
    return {row: record for row, record in latest.items() if record is not None}


def tuned_row(row: Row, finder: Finder, section: TuneSpec | None) -> Row:
    """Returns the row `ROW@tuned`. UserError: no search has tuned it."""
    found = used([row], finder, section)
    if not found:
        raise UserError(f"{row.id}{TUNED}: no search has tuned this row; run: nmt-ablate sweep TABLE --tune, with the same options")
    return apply(row, found[row.id])


def not_searched(tuned: Sequence[Row], rows: Sequence[Row]) -> list[str]:
    """Returns short addresses of rows and controls that tuned rows are compared with and that have no search. rows: the whole table."""
    here = {row.id for row in tuned}
    wanted = {name for row in tuned for name in (row.compare_with, *row.control_rows) if name is not None}
    wanted |= {row.id for row in rows if row.control is not None and row.control.against in here}
    return [short_id(row.id) for row in rows if row.id in wanted - here]


def notes(searches: Mapping[str, Record]) -> list[str]:
    if not searches:
        return []
    first = next(iter(searches.values()))["tune"]
    seeds = ", ".join(map(str, first["seeds"]["search"]))
    arms = [(short_id(row), record) for row, record in searches.items()]
    chosen = "; ".join(f"{row}: {said(record)}" for row, record in arms)
    return [
        f"tuned: {first['trials']} trials of each row with seeds {seeds}, chosen by {first['select']}; other seeds judge the choice",
        f"chosen values: {chosen}",
        *unscored(searches),
        *(f"{row}: {line}" for row, record in arms for line in warnings(record)),
    ]


def unscored(searches: Mapping[str, Record]) -> list[str]:
    """Returns a note on searches of earlier versions, which did not score their trials."""
    rows = [short_id(row) for row, record in searches.items() if not scored(record)]
    line = (
        f"BLEU is open, because finished trials have no scores: {', '.join(rows)}. The same sweep adds them, and trains what has no weights"
    )
    return [line] * bool(rows)


def scored(record: Mapping[str, Any]) -> bool:
    return "scores" in record["trials"][0]


def said(record: Mapping[str, Any]) -> str:
    """Returns the chosen values in words; `as written` if trial 0 was the best."""
    chosen = record["chosen"]
    changes = {} if chosen is None else record["trials"][chosen]["changes"]
    return ", ".join(f"{name.removeprefix('optim.schedule.')} {value}" for name, value in changes.items()) or "as written"


def apply(row: Row, record: Mapping[str, Any]) -> Row:
    """Returns the row `ROW@tuned` of a search."""
    return replace(with_chosen(row, record), id=f"{row.id}{TUNED}", label=f"{row.label or row.id}, tuned", pinned=False)


def plain(section: TuneSpec) -> dict[str, Any]:
    """Returns what makes the search. The judging seeds do not."""
    return section.model_dump(mode="json", exclude_none=True, exclude={"seeds": {"judge"}})


def with_chosen(row: Row, record: Mapping[str, Any]) -> Row:
    """Returns the row under its own name with the values of the chosen trial; as written if no trial ended well."""
    chosen, select = record["chosen"], record["tune"]["select"]
    made = row if chosen is None else changed(row, dict(record["trials"][chosen]["changes"]), row.id)
    return replace(made, trials=tuple(Trial(*each) for each in zip(losses(record["trials"], select), scores_of(record), strict=True)))


def scores_of(record: Mapping[str, Any]) -> list[dict[str, float]]:
    """Returns the scores of each trial. Records of earlier versions have only the value by which the search chose."""
    by_nll = record["tune"]["select"] == "valid/nll"
    return [each.get("scores", {"nll": each["value"]} if by_nll and each["value"] is not None else {}) for each in record["trials"]]
