"""The plan of a command: keys, parameters and status of each run (new, done, shared, stopped, ...)."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from pathlib import Path
from typing import Any

from orchestrator.data import expected_text, prepare, store
from orchestrator.data.store import Prepared
from orchestrator.files.canonical import digest
from orchestrator.ledger.keys import Keys, external_keys, keys_of
from orchestrator.ledger.results import Ledger
from orchestrator.ledger.run_files import Store
from orchestrator.ledger.run_view import RunView
from orchestrator.specs import check
from orchestrator.specs.corpora import load_entry
from orchestrator.specs.row import Row
from orchestrator.specs.rows import runs
from orchestrator.specs.schema import DataSpec, RunSpec
from orchestrator.sweeps import parts
from orchestrator.sweeps.memory import estimate
from orchestrator.tables import counted

UNDECODED = "its decoding needs its weights, which are not here"
"""Reason for which a row trains again that has a finished training."""


@dataclass(frozen=True)
class Planned:
    """One row and seed.

    status: new | done | failed | shared | stopped | needs-data. stopped: by ASHA, final for its sweep, but `run` resumes it. failed: by the
    row's own rule (see `ledger.run_view`), for `reason`; nothing is left to do. done, with a reason: the training diverged. new, with a
    reason: trained, but its weights are needed and are not here.
    same_as: the earlier row of this plan with the same score key. also: keys of the other scorings of the training, by name.
    changed: source files edited since the training (see `ledger.component_sources`).
    trained: the status of the training alone. scored: names of the scorings that the ledger has, the row's own is "".
    """

    id: str
    seed: int
    keys: Keys
    params: int | None
    status: str
    same_as: str | None = None
    also: dict[str, Keys] = field(default_factory=dict)
    reason: str = ""
    changed: list[str] = field(default_factory=list)
    trained: str | None = None
    scored: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        plain = {name: getattr(self, name) for name in ("id", "seed", "params", "status", "same_as", "reason", "changed")}
        return plain | {"keys": self.keys.as_dict(), "also": {name: keys.as_dict() for name, keys in self.also.items()}}


@dataclass
class Plan:
    """parents: rows that were not requested but are trained first, because a row starts from them.

    rates: optimiser and schedule by id of a row or parent.
    """

    rows: list[Planned] = field(default_factory=list)
    parents: list[Planned] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    rates: dict[str, str] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        return {
            "rows": [row.as_json() for row in self.rows],
            "parents": [row.as_json() for row in self.parents],
            "totals": dict(Counter(row.status for row in self.rows)) | {"runs": len(self.rows), "trainings": self.trainings},
            "notes": self.notes,
            "rates": self.rates,
        }

    @property
    def every(self) -> list[Planned]:
        return [*self.parents, *self.rows]

    @property
    def trainings(self) -> int:
        """Number of distinct trainings of new rows and their parents."""
        return len(self.parents_to_train | {row.keys.train for row in self.rows if row.status == "new"})

    @property
    def parents_to_train(self) -> set[str | None]:
        """Trainings of rows that were not requested. Stopped ones must finish, so they count."""
        return {row.keys.train for row in self.parents if row.status in ("new", "stopped")}


class Data:
    """Manifests and prepared data, cached per distinct data section."""

    def __init__(self, data_dir: Path | None, cache_dir: Path | None = None) -> None:
        self.data_dir, self.cache_dir = data_dir, cache_dir
        self._manifests: dict[str, dict[str, Any] | None] = {}
        self._prepared: dict[str, Prepared | None] = {}

    def manifest(self, data: DataSpec) -> dict[str, Any] | None:
        """The manifest of a data section; None if the data is absent."""
        key = data.model_dump_json()
        if key not in self._manifests:
            self._manifests[key] = prepare.manifest(data, self.data_dir)
        return self._manifests[key]

    def prepared(self, data: DataSpec) -> Prepared | None:
        """The prepared data; None if the data is absent or not prepared."""
        manifest = self.manifest(data)
        if self.cache_dir is None or manifest is None:
            return None
        section = data.model_dump_json()
        if self._prepared.get(section) is None:
            key = digest(manifest)
            self._prepared[section] = store.load(self.cache_dir / key[:16], key)
        return self._prepared[section]

    def unexpected(self, rows: Sequence[Row]) -> list[str]:
        """Differences between the corpora and what the catalogue expects for their names."""
        tests: dict[str, set[str]] = {}
        sections: dict[str, DataSpec] = {}
        for row in rows:
            if row.spec is not None and self.manifest(row.spec.data) is not None:
                sections.setdefault(str(row.spec.data.corpus), row.spec.data)
                tests.setdefault(str(row.spec.data.corpus), set()).update(score.test for score in (row.spec.score, *row.also.values()))
        differences = []
        for corpus, data in sections.items():
            splits, prepared = {*expected_text.TRAINING, *tests[corpus]}, self.prepared(data)
            if prepared is None:
                text = expected_text.of_files(load_entry(data.corpus), self.data_dir, splits)
            else:
                text = expected_text.of_prepared(prepared, splits)
            differences += expected_text.unexpected(corpus, text)
        return differences

    def vocabulary_sizes(self, spec: RunSpec) -> tuple[int, int] | None:
        """(source, target) sizes of the prepared data, else as declared; None if neither is available."""
        prepared = self.prepared(spec.data)
        return parts.declared(spec) if prepared is None else (prepared.src_size, prepared.tgt_size)

    def params(self, spec: RunSpec) -> int | None:
        """Number of parameters; None without vocabulary sizes."""
        sizes = self.vocabulary_sizes(spec)
        return None if sizes is None else parts.params(spec, *sizes)

    def memory(self, spec: RunSpec, workers: int, device: str) -> int | None:
        """Estimated bytes of each worker; None without vocabulary sizes."""
        sizes = self.vocabulary_sizes(spec)
        return None if sizes is None else estimate(spec, parts.params(spec, *sizes), sizes[1], workers=workers, device=device)


def plan(rows: Sequence[Row], seeds: Sequence[int], *, ledger: Ledger, data: Data | None = None, force: bool = False) -> Plan:
    """Plans every row with every seed. UserError as of `specs.rows.runs`."""
    data, result = data or Data(None), Plan()
    rows = [row for row in rows if row.kind == "run"]
    first, without_weights = dict[str, str](), set[str | None]()
    requested = list(runs(list(rows), list(seeds), force))
    known = {(row.id, seed) for row, seed in requested}
    for row, seed in requested:
        seeded = row.at(seed)
        lineage = seeded.lineage[:-1]
        result.rates |= {each.id: each.spec.optim.summary() for each in (seeded, *lineage) if each.spec is not None}
        for parent in lineage:
            if (parent.id, seed) not in known:
                known.add((parent.id, seed))
                result.parents.append(_plan_row(parent, seed, data, ledger, first))
        result.rows.append(planned := _plan_row(seeded, seed, data, ledger, first))
        if planned.status in ("new", "stopped"):
            above = (keys_for(ancestor, data).train for ancestor in reversed(lineage))  # the nearest weights are enough
            lacking = takewhile(lambda key: key is not None and not Store(ledger.run_dir(key), key).has_weights(), above)
            without_weights |= set(lacking)  # results in a mirror have none
    result.parents, result.rows = _again(result.parents, without_weights), _again(result.rows, without_weights)
    result.notes = _notes(rows, result, data)
    return result


def _notes(rows: Sequence[Row], result: Plan, data: Data) -> list[str]:
    specs = {row.id: row.spec for row in rows if row.spec is not None}
    notes = []
    if uncounted := {row.id for row in result.rows if row.params is None}:
        corpora = sorted({str(specs[row].data.corpus) for row in uncounted})
        notes.append(
            f"parameters of {counted(len(uncounted), 'row')} need vocabulary sizes: prepare {', '.join(corpora)} "
            "(nmt-ablate data prepare) or give --set data.vocab.src=N --set data.vocab.tgt=N"
        )
    if lacking := sorted({str(spec.data.corpus) for spec in specs.values() if data.manifest(spec.data) is None}):
        notes.append(f"data absent: {', '.join(lacking)} (--data-dir, or nmt-ablate data get NAME)")
    notes += [f"warning: {line}" for line in data.unexpected(rows)]
    return notes + check.warnings((each.id, each.spec) for row in rows for each in row.lineage if each.spec is not None)


def keys_for(row: Row, data: Data) -> Keys:
    """Keys of a row with its seed. All None if data is absent."""
    if row.kind == "external":
        return external_keys(row.id, row.run_spec.seed, row.run_spec.score, data.manifest(row.run_spec.data))
    parent = None if row.parent is None else keys_for(row.parent, data).train
    manifest = data.manifest(row.run_spec.data)
    return keys_of(row.run_spec, None if row.parent is not None and parent is None else manifest, parent)


def also_keys(row: Row, data: Data) -> dict[str, Keys]:
    """Keys of each other scoring of the row's training, by name."""
    return {name: keys_for(row.rescored(score), data) for name, score in row.also.items()}


def _again(rows: Sequence[Planned], without_weights: set[str | None]) -> list[Planned]:
    return [
        replace(row, status="new", reason="a row starts from its weights, which are not here", trained=None, scored=())
        if row.status == "done" and row.keys.train in without_weights
        else row
        for row in rows
    ]


def _plan_row(row: Row, seed: int, data: Data, ledger: Ledger, first: dict[str, str]) -> Planned:
    keys = keys_for(row, data)
    params = data.params(row.run_spec)
    if keys.train is None or keys.score is None:
        return Planned(row.id, seed, keys, params, "needs-data")
    also = also_keys(row, data)
    score_keys = [keys.score, *(k.score for k in also.values() if k.score is not None)]
    same_as, shared = first.get(keys.score), all(key in first for key in score_keys)
    for key in score_keys:
        first.setdefault(key, row.id)
    view = RunView.read(ledger, {"": keys, **also}, row.failed_below, texts=True)
    outcome, status, reason = view.outcome, "new", ""
    if outcome.as_stated:
        status, reason = outcome.status, outcome.reason
    elif outcome.finished:
        status, reason = "done", "" if outcome.status == "done" else outcome.status
    elif shared:
        status = "shared"
    elif outcome.status == "stopped":
        status = "stopped"
    again = status == "new" and view.trains_again
    scored = () if again else tuple(name for name, score in view.scores.items() if score is not None)
    trained, reason = (None, UNDECODED) if again else (view.trained, reason)
    return Planned(row.id, seed, keys, params, status, same_as, also, reason, view.changed, trained, scored)
