"""Reads sweep files and the ledger's run directories for tracking. Never called in a training loop.

    ROOT/sweeps/SWEEP.json   {"sweep_id", "name", "started", "rows": [{"id", "label", "seed", "paper", "table", "row",
                              "keys": {"train", "decode", "score"}, "spec": {..resolved}, "also": {NAME: {"keys"}}, "failed_below": BLEU}]}
    ROOT/TRAIN16/            train.json, decode/DECODE16.{json,txt}, score/SCORE16.json, history.jsonl, spec.yaml, capsule.json

The results come from `RunView`, as in every other command: what `table` refuses, MLflow does not show.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orchestrator.errors import UserError
from orchestrator.ledger import superseded, sweep_files
from orchestrator.ledger.keys import Keys
from orchestrator.ledger.packed import table_of
from orchestrator.ledger.results import Ledger
from orchestrator.ledger.run_view import RunView
from orchestrator.safe_text import log_once
from orchestrator.scoring.rouge import FIGURES as ROUGE
from orchestrator.tracking.history import Point, number, read_points

FINAL = ("done", "stopped", "diverged", "failed")
"""Final states of a run. The others are `pending` (no files yet) and `running`."""


@dataclass(frozen=True)
class SweepRow:
    """One row and seed of a sweep. `id`: full address (`dou2018/table1/row4`). Keys are None while the data is absent."""

    id: str
    seed: int
    label: str
    paper: str
    table: str
    train: str | None
    decode: str | None
    score: str | None
    spec: dict[str, Any]
    also: dict[str, str] = field(default_factory=dict)
    """Score keys of other scorings of the same training, by name."""
    again: int = 0
    """Number of superseded results of its training (see `ledger.superseded`); the store has one run for each."""
    failed_below: float | None = None
    """BLEU below which the row, like a diverged one, counts as failed (see `ledger.run_view`); None for no bound."""

    @property
    def scorings(self) -> dict[str, Keys]:
        """Keys by name of the scoring, the row's own ("") first."""
        own = {"": Keys(self.train, self.decode, self.score)}
        return own | {name: Keys(self.train, None, score) for name, score in self.also.items()}

    @property
    def key(self) -> str:
        """Identity of the row within its sweep: address, seed and the three keys, without other scorings."""
        parts = [self.id, str(self.seed), self.train or "", self.decode or "", self.score or ""]
        parts += [f"again {self.again}"] if self.again else []
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()


@dataclass(frozen=True)
class SweepRecord:
    """A sweep file. `started`: milliseconds since 1970."""

    id: str
    name: str
    started: int
    rows: list[SweepRow]


@dataclass
class RunResult:
    """The results of a row. start, end: milliseconds; end is None while it runs. content: hash of all results."""

    state: str
    start: int
    end: int | None
    metrics: dict[str, float]
    tags: dict[str, str]
    points: list[Point]
    nonfinite: list[str]
    artifacts: dict[str, Path]
    content: str = ""
    commit: str = ""
    """Of the code that trained it, as far as known."""

    @property
    def ended(self) -> int:
        """The time by which runs are ordered."""
        return self.end or self.start

    @property
    def figures(self) -> dict[str, float]:
        """The final figures, and the last value of validation nll."""
        last = [point.value for point in self.points if point.key == "valid/nll"][-1:]
        return self.metrics | ({"valid/nll": last[0]} if last else {})


def read_sweep(path: Path) -> SweepRecord:
    """Reads a sweep file. ValueError names the file if it is not a sweep file; OSError if it cannot be read."""
    try:
        record = sweep_files.read(path)
        rows = [_row(item, path.parent.parent) for item in record["rows"]]
        sweep_id = str(record["sweep_id"])
        return SweepRecord(sweep_id, str(record.get("name") or sweep_id), int(record["started"] * 1000), rows)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"{path}: not a sweep file ({type(error).__name__}: {error})") from error


def read_result(roots: Sequence[Path], row: SweepRow, sweep: SweepRecord) -> RunResult | None:
    """The results of a row; None if there are none, or, with a warning, if a file holds the record of another run."""
    ledger = Ledger(roots[0], roots[1:])
    if row.train is None or not any(times := [_modified(ledger, row.train, name) for name in _files(row)]):
        return None
    try:
        view = RunView.read(ledger, row.scorings, row.failed_below)
        capsule, files = view.capsule or {}, view.files
        train, decode, score = view.training, view.decoding or {}, view.score or {}
    except UserError as error:
        log_once(f"warning: {error}")
        return None
    also = {name: record or {} for name, record in view.scores.items() if name}
    state = "running" if view.status in ("new", "trained") else view.status
    start = times[0] or sweep.started
    points, nonfinite = read_points(ledger.reports(row.train), start)
    result = RunResult(state, start, None, _finals(train, decode, score, also), {}, points, nonfinite, files)
    if state == "stopped" and points:
        result.end = points[-1].time  # its record is written at the sweep's end
    elif state in FINAL:
        result.end = max(filter(None, times[2:]), default=start)
    run_tags = {
        "reason": view.outcome.reason,
        "ended_by": train.get("ended_by"),
        "signature": score.get("signature"),
        "weights_sha256": train.get("weights_sha256"),
    }
    result.tags = {name: str(value) for name, value in run_tags.items() if value}
    result.commit = str(capsule.get("git_commit") or "")
    about = [train, {k: v for k, v in decode.items() if k != "tokens"}, score, len(points), points[-1:], nonfinite]
    content = json.dumps(about + [also] * bool(also), default=str)
    result.content = hashlib.sha256(content.encode()).hexdigest()
    return result


def _row(item: Mapping[str, Any], results: Path) -> SweepRow:
    keys = item.get("keys") or {}
    names: dict[str, Any] = {name: str(item.get(name) or "") for name in ("label", "paper", "table")}
    identity: dict[str, Any] = {name: keys.get(name) for name in ("train", "decode", "score")}
    also = {str(name): str(other["keys"]["score"]) for name, other in (item.get("also") or {}).items()}
    about: dict[str, Any] = {"also": also, "failed_below": item.get("failed_below")}
    about["again"] = sum(superseded.generation(results, identity["train"]))
    return SweepRow(id=str(item["id"]), seed=int(item["seed"]), spec=dict(item.get("spec") or {}), **about, **names, **identity)


def _files(row: SweepRow) -> list[str]:
    """Names of the row's files in the folder of its run: the spec, the reports, then the records."""
    scores = [keys.score for keys in row.scorings.values()]
    records = ["train.json", f"decode/{row.decode or '':.16}.json", *(f"score/{key or '':.16}.json" for key in scores)]
    return ["spec.yaml", "history.jsonl", *records]


def _modified(ledger: Ledger, train_key: str, name: str) -> int | None:
    """When a file of a run, or the table of a packed run, was written, in milliseconds; None if there is none."""
    for run in ledger.places(train_key):
        table = table_of(run / name)
        with contextlib.suppress(OSError):
            return int((run / name if table is None else table.path).stat().st_mtime_ns / 1e6)
    return None


def _finals(
    train: Mapping[str, Any], decode: Mapping[str, Any], score: Mapping[str, Any], also: Mapping[str, Mapping[str, Any]]
) -> dict[str, float]:
    found = {"bleu": score.get("bleu"), "chrf": score.get("chrf", {}).get("score"), "tokens_per_second": train.get("tokens_per_second")}
    found |= {"sentences_per_second": decode.get("sentences_per_second")} | {
        name: train.get(name) for name in ("params", "steps", "seconds")
    }
    found |= {f"bleu_{name}": score.get(name, {}).get("score") for name in ("sacrebleu", "tokenised", "mteval")}
    found |= {name: score.get(name) for name in ROUGE}
    found |= {f"bleu_{name}": other.get("bleu") for name, other in also.items()}
    found |= {f"{figure}_{name}": other.get(figure) for name, other in also.items() for figure in ROUGE}
    return {name: figure for name, value in found.items() if (figure := number(value)) is not None and math.isfinite(figure)}
