"""One run of the ledger as one row sees it. Every command reads a run's state, outcome and figures from here.

A row may state that its runs are expected to fail (`failed_below: 5`): such a run is `failed`, which is a result and not an error.
The ledger records what happened (`diverged`, or `done` with its score); the bound belongs to the row.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from orchestrator.ledger import component_sources
from orchestrator.ledger.keys import Keys
from orchestrator.ledger.records import Record
from orchestrator.ledger.results import Ledger
from orchestrator.ledger.run_lock import owner
from orchestrator.specs.table import FAILED

FINISHED = ("done", "diverged")
"""Statuses of a training that does not continue."""


@dataclass(frozen=True)
class Outcome:
    """status: new (no record) | done (with all scores) | trained (scores are missing) | diverged | stopped | failed.

    as_stated: the run is `failed` by the row's own bound, for this `reason`. Other failed runs ended with an error.
    """

    status: str
    reason: str = ""
    as_stated: bool = False

    @property
    def finished(self) -> bool:
        return self.as_stated or self.status in FINISHED


def outcome_of(record: Mapping[str, Any] | None, scores: Iterable[Mapping[str, Any] | None], failed_below: float | None = None) -> Outcome:
    """Derives the outcome of one row.

    record: of the training, None if there is none. scores: records of all scorings, the row's own first, None if missing.
    failed_below: the row's bound in BLEU on its own test set; None for rows without one.
    """
    if not record:
        return Outcome("new")
    status, reason, scores = str(record.get("status", "new")), str(record.get("reason") or ""), list(scores)
    if failed_below is not None and status == "diverged":
        return Outcome(FAILED, f"diverged: {reason}" if reason else "diverged", as_stated=True)
    if status != "done":
        return Outcome(status, reason)
    if not all(scores):
        return Outcome("trained", reason)
    bleu = scores[0].get("bleu") if scores and scores[0] else None
    if failed_below is not None and bleu is not None and bleu < failed_below:
        return Outcome(FAILED, f"BLEU {bleu:.2f} is under {failed_below:g}", as_stated=True)
    return Outcome(status, reason)


def in_words(status: str, reason: str) -> str:
    """Returns a status for people: `stopped by ASHA at step 75`, `diverged: the loss is inf`, or only the status."""
    return status if not reason or status == "done" else reason if status == "stopped" else f"{status}: {reason}"


@dataclass(frozen=True)
class RunView:
    """The records of a run when `read` was called.

    scorings: keys by name of the scoring, the row's own ("") first. training: train.json, {} without one. scores: by name; None for one
    that is missing. Without a training no score counts.
    """

    ledger: Ledger = field(repr=False, compare=False)
    scorings: Mapping[str, Keys]
    training: Record
    scores: dict[str, Record | None]
    outcome: Outcome

    @classmethod
    def read(cls, ledger: Ledger, scorings: Mapping[str, Keys], failed_below: float | None = None, *, texts: bool = False) -> "RunView":
        """Reads a run. UserError if a file holds the record of another key.

        scorings: keys by name of the scoring, the row's own ("") first. One without a score key is not expected.
        failed_below: the row's bound, see `outcome_of`.
        texts: whether a score counts as missing while its translations are damaged, because `run` makes both again.
        """
        train = scorings[""].train
        training = None if train is None else ledger.read_train(train)
        if train is None or training is None:
            return cls(ledger, scorings, {}, dict.fromkeys(scorings), Outcome("new"))
        scores: dict[str, Record | None] = {}
        for name, own in scorings.items():
            damaged = texts and own.decode is not None and ledger.decoding_is_damaged(train, own.decode)
            scores[name] = None if own.score is None or damaged else ledger.record(train, "score", own.score)
        expected = [scores[name] for name, own in scorings.items() if own.score is not None]
        return cls(ledger, scorings, training, scores, outcome_of(training, expected, failed_below))

    @property
    def keys(self) -> Keys:
        """Keys of the row's own scoring."""
        return self.scorings[""]

    @property
    def status(self) -> str:
        return self.outcome.status

    @property
    def trained(self) -> str | None:
        """The status of the training alone; None without a record."""
        return self.training.get("status")

    @property
    def trains_again(self) -> bool:
        """Whether a missing score needs a decoding by weights that are not here: a run in a mirror has none."""
        from orchestrator.ledger.run_files import Store  # loads torch, which `status` does without

        train = self.keys.train
        if self.trained != "done" or train is None or Store(self.ledger.run_dir(train), train).has_weights():
            return False
        missing = [self.scorings[name] for name, score in self.scores.items() if score is None]
        return any(k.score and (k.decode is None or self.ledger.read_decode(train, k.decode) is None) for k in missing)

    @property
    def steps(self) -> int:
        return int(self.training.get("steps") or 0)

    @property
    def score(self) -> Record | None:
        return self.scores[""]

    @property
    def bleu(self) -> float | None:
        return None if self.score is None else self.score["bleu"]

    @cached_property
    def decoding(self) -> Record | None:
        """The record of the row's own decoding, without its texts."""
        train, decode = self.keys.train, self.keys.decode
        return None if train is None or decode is None else self.ledger.record(train, "decode", decode)

    @property
    def sentences_per_second(self) -> float | None:
        return (self.decoding or {}).get("sentences_per_second")

    @cached_property
    def capsule(self) -> Record | None:
        return None if self.keys.train is None else self.ledger.read_capsule(self.keys.train)

    @property
    def files(self) -> dict[str, Path]:
        """The intact files by name: train.json, spec.yaml, capsule.json, hypotheses.txt, score.json. A packed run has none."""
        train, decode, score = self.keys.train or "", self.keys.decode or "", self.keys.score or ""
        wanted = {name: (name, train) for name in ("train.json", "spec.yaml", "capsule.json")}
        wanted |= {"hypotheses.txt": (f"decode/{decode[:16]}.txt", decode), "score.json": (f"score/{score[:16]}.json", score)}
        reader, found = self.ledger.reader, dict[str, Path]()
        for run in self.ledger.places(train) if train else []:
            for name, (file, key) in wanted.items():
                if key and name not in found and (run / file).is_file():
                    if name.endswith(".json"):
                        intact = reader.record(run / file, key)
                    else:
                        intact = reader.spec(run) if name == "spec.yaml" else reader.decoding(run, key)
                    if intact is not None:
                        found[name] = run / file
        return found

    @property
    def changed(self) -> list[str]:
        """Source files that were edited since the training (see `component_sources`)."""
        return component_sources.changed(self.training, self.ledger)

    @property
    def is_held(self) -> bool:
        return self.keys.train is not None and owner(self.ledger.run_dir(self.keys.train) / "lock") is not None
