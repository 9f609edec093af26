"""Finds the results of a row in the ledger: by its own keys, or, if its data is absent, by the keys recorded with the same spec."""

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from orchestrator.errors import UserError
from orchestrator.ledger import packed
from orchestrator.ledger.keys import Keys
from orchestrator.ledger.results import Ledger, Record
from orchestrator.ledger.run_view import RunView
from orchestrator.paths import PUBLISHED_LEDGER
from orchestrator.report.spec_index import entries, external_of, meaning_of, search_of, training_of
from orchestrator.scoring.rouge import figures_of, principal
from orchestrator.scoring.significance.sentence_statistics import StatisticsReader
from orchestrator.specs.controls import of_address
from orchestrator.specs.row import Row, table_of
from orchestrator.specs.schema import RunSpec
from orchestrator.sweeps.plan import Data, keys_for

NO_KEYS = Keys(None, None, None)


@dataclass(frozen=True)
class SeedResult:
    """One seed of a row. status: done | stopped | diverged | failed | trained | repeated. Only a done seed has figures.

    stated: failed by the row's own rule (see `ledger.run_view`); then `params` is set and the BLEU is in the reason.
    also: BLEU (or ROUGE-L) of each other scoring that has a record, and the row's own ROUGE figures.
    keys: keys of its records in the ledger. text: the text of training and test sets (see `data.expected_text`).
    system: of an external row, the system that made its translations.
    changed: components that changed since the training (see `ledger.component_sources`). weights: sha256 of the trained weights.
    """

    seed: int
    status: str
    reason: str
    steps: int
    params: int | None = None
    bleu: float | None = None
    chrf: float | None = None
    signature: str | None = None
    tokens_per_second: float | None = None
    sentences_per_second: float | None = None
    capsule: dict[str, Any] | None = None
    also: dict[str, float] = field(default_factory=dict)
    system: str = ""
    keys: Keys = NO_KEYS
    stated: bool = False
    text: dict[str, Any] = field(default_factory=dict)
    changed: tuple[str, ...] = ()
    weights: str | None = None


class Finder:
    """Finds the results of rows. It reads only runs on the requested corpora from the ledger, once per corpus."""

    def __init__(self, ledger: Ledger, data: Data) -> None:
        self.ledger, self.data = ledger, data
        self._corpora: set[str] = set()  # corpora whose runs were read
        self._by_spec: dict[str, dict[int, Keys]] = {}
        self._searches: dict[str, dict[int, list[tuple[str | None, Keys]]]] = {}  # with the row that each starts from
        self._seeds: dict[str, set[int]] = {}
        self._controls: dict[str, set[str]] = {}
        self._trials: dict[str, set[str]] = {}  # runs of searches, which read no test set
        self.left_out: frozenset[int] = frozenset()

    @cached_property
    def reader(self) -> StatisticsReader:
        return StatisticsReader(self.ledger)

    def outcomes(self, row: Row, seeds: Iterable[int] = ()) -> list[SeedResult]:
        """Returns every seed of the row with a record, sorted. `seeds`: seeds to search for besides the seeds in the ledger."""
        found = [self._outcome(row.at(seed), seed, keys) for seed, keys in self.seeds(row, seeds).items()]
        return _counted_once([outcome for outcome in found if outcome is not None])

    def seeds(self, row: Row, seeds: Iterable[int] = ()) -> dict[int, Keys]:
        """Returns the keys of every seed in the ledger and in `seeds`, sorted by seed. Seeds without data that never ran are left out."""
        if row.spec is None:
            return {}
        self._index(row.spec)
        trained = self._seeds.get(external_of(row.id) if row.kind == "external" else training_of(row.spec), set())
        keys = {seed: self.keys(row.at(seed)) for seed in sorted({*trained, *seeds} - self.left_out)}
        return {seed: found for seed, found in keys.items() if found is not None}

    def without(self, seeds: Iterable[int]) -> "Finder":
        """Returns the same finder, which leaves out these seeds."""
        made = copy.copy(self)
        made.left_out = frozenset(seeds)
        return made

    def trials(self, row: Row) -> set[str]:
        """Returns the train keys of the row's runs that a search has trained."""
        self._index(row.run_spec)
        return self._trials.get(training_of(row.run_spec), set()) if self._trials else set()

    def control_kinds(self, table: str, rows: Iterable[Row]) -> set[str]:
        """Returns the kinds of matched controls that have runs in the ledger, for the table at this address with these rows."""
        for row in rows:
            if row.spec is not None:
                self._index(row.spec)
        return self._controls.get(table, set())

    def keys(self, row: Row) -> Keys | None:
        """Returns the keys of the row at its own seed. If its data is absent: the keys of a run with the same spec, or None."""
        if row.spec is None:
            return None
        try:
            found = keys_for(row, self.data)
        except UserError:  # the test set is missing
            found = NO_KEYS
        if found.score is None and row.kind == "external":
            return self._index(row.spec).get(external_of(row.id, row.spec.score), {}).get(row.spec.seed)
        if found.score is None:
            return self._index(row.spec).get(meaning_of(row.spec), {}).get(row.spec.seed) or self._by_record(row)
        return found

    def _by_record(self, row: Row) -> Keys | None:
        """Returns the keys of a score record with the row's `score`, from a run with the same training and search."""
        trained = self._trained(row)
        if trained is None or trained.train is None:
            return None
        wanted = row.run_spec.score.model_dump(exclude_none=True)
        found = next((record for record in self.ledger.records(trained.train, "score") if record.get("score") == wanted), None)
        return None if found is None else Keys(trained.train, found["decode_key"], found["key"])

    def _trained(self, row: Row) -> Keys | None:
        """Returns the keys of a run with the row's training and search. Its parent may have another address if the training is the same."""
        runs = self._searches.get(search_of(row.run_spec), {}).get(row.run_spec.seed, [])
        found = next((keys for start, keys in runs if start == row.run_spec.init_from), None)
        if found is not None or row.parent is None:
            return found
        parent = (self.keys(row.parent) or NO_KEYS).train
        starts = (((self.ledger.read_train(str(keys.train)) or {}).get("parent") or {}, keys) for _, keys in runs)
        return next((keys for start, keys in starts if start and start.get("key") == parent), None)

    def score(self, keys: Keys | None) -> Record | None:
        return None if keys is None or keys.train is None or keys.score is None else self.ledger.record(keys.train, "score", keys.score)

    def _outcome(self, row: Row, seed: int, keys: Keys) -> SeedResult | None:
        if row.spec is None or keys.train is None or keys.decode is None or keys.score is None:
            return None
        view = RunView.read(self.ledger, {"": keys}, row.failed_below)
        outcome, record, scored = view.outcome, view.training, view.score
        if not record:
            return None
        lacking = "not scored this way: add the file again" if row.kind == "external" else "not scored"
        made = SeedResult(
            seed,
            outcome.status,
            lacking if outcome.status == "trained" else outcome.reason,
            view.steps,
            params=record.get("params") if outcome.as_stated or outcome.status in ("done", "trained") else None,
            keys=keys,
            system=(record.get("external") or {}).get("system", ""),
            stated=outcome.as_stated,
            changed=tuple(view.changed),
        )
        if outcome.status != "done" or scored is None:
            return made
        others = self._others(row)
        sentences = {"pairs": {row.spec.score.test: scored.get("sentences")}}
        parts = "pairs", "sha256", "leaked"
        texts = [each.get("text") or {} for each in (record, {"text": sentences}, scored, *others.values())]  # earlier versions stored none
        return replace(
            made,
            bleu=view.bleu,
            chrf=(scored.get("chrf") or {}).get("score"),
            signature=scored.get("signature"),
            tokens_per_second=record.get("tokens_per_second"),
            sentences_per_second=view.sentences_per_second,
            capsule=view.capsule,
            weights=record.get("weights_sha256"),
            also={name: principal(other) for name, other in others.items()} | figures_of(scored),
            text={part: {split: its for text in texts for split, its in (text.get(part) or {}).items()} for part in parts},
        )

    def _others(self, row: Row) -> dict[str, Record]:
        known = {name: self.score(self.keys(row.rescored(how))) for name, how in row.also.items()}
        return {name: record for name, record in known.items() if record is not None}

    def _index(self, spec: RunSpec) -> dict[str, dict[int, Keys]]:
        """Maps the digest of a spec without its seed to {seed: keys}, for the runs on the spec's corpus."""
        if spec.data.corpus not in self._corpora:
            self._corpora.add(spec.data.corpus)
            for found in entries(self.ledger, spec.data.corpus):
                if found.keys.train is not None and found.keys.score is None:
                    self._trials.setdefault(found.training, set()).add(found.keys.train)
                    continue
                self._by_spec.setdefault(found.meaning, {}).setdefault(found.seed, found.keys)  # the last sweep's, see `entries`
                self._searches.setdefault(found.search, {}).setdefault(found.seed, []).append((found.init_from, found.keys))
                for other, its in found.others:
                    self._by_spec.setdefault(other, {}).setdefault(found.seed, its)
                self._seeds.setdefault(found.training, set()).add(found.seed)
                if (control := of_address(found.id)) is not None:
                    self._controls.setdefault(table_of(found.id), set()).add(control.kind)
        return self._by_spec


def _counted_once(found: Sequence[SeedResult]) -> list[SeedResult]:
    """Returns the seeds of a row. A seed with the weights of an earlier one is `repeated`: together they are one observation."""
    first: dict[str | None, int] = {o.weights: o.seed for o in reversed(found) if o.weights is not None}
    why = {
        o.seed: f"has the weights of seed {first[o.weights]} and does not count" for o in found if first.get(o.weights, o.seed) != o.seed
    }
    return [SeedResult(o.seed, "repeated", why[o.seed], o.steps, keys=o.keys, changed=o.changed) if o.seed in why else o for o in found]


def is_shipped(ledger: Ledger, key: str | None) -> bool:
    """Returns whether a run (by its train key) is only in the published ledger."""
    if key is None:
        return False
    return ledger.root.resolve() == PUBLISHED_LEDGER or (bool(ledger.mirrors) and not packed.exists(ledger.run_dir(key) / "train.json"))


def shipped(ledger: Ledger, outcomes: Mapping[str, Sequence[SeedResult]]) -> dict[str, list[str]]:
    """Returns row -> train keys of its shipped runs, for rows with only shipped runs."""
    keys = {row: [o.keys.train for o in found if o.keys.train is not None] for row, found in outcomes.items()}
    return {row: own for row, own in keys.items() if own and all(is_shipped(ledger, key) for key in own)}
