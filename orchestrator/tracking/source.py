"""Reads sweep files and the ledger's run directories for tracking. Never called in a training loop.

The results come from `RunView`, as in every other command: what `table` refuses, MLflow does not show.
"""

import contextlib
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from orchestrator.errors import UserError
from orchestrator.ledger import sweep_files
from orchestrator.ledger.packed import line_of
from orchestrator.ledger.records import STATUSES
from orchestrator.ledger.results import Ledger, Record
from orchestrator.ledger.run_view import RunView
from orchestrator.ledger.sweep_files import SweepRow
from orchestrator.safe_text import log_once
from orchestrator.scoring.rouge import ROUGE
from orchestrator.tracking.history import Point, number, read_points


@dataclass(frozen=True)
class SweepRecord:
    """A sweep file. `started`: milliseconds since 1970."""

    id: str
    name: str
    started: int
    rows: list[SweepRow]


@dataclass(frozen=True)
class RunResult:
    """The results of a row. start, ended: milliseconds; an open run ends at its last report. tags: for MLflow. content: hash of it all."""

    row: SweepRow
    state: str
    start: int
    ended: int
    metrics: dict[str, float]
    points: list[Point]
    view: RunView
    tags: dict[str, str]
    content: str

    @cached_property
    def figures(self) -> dict[str, float]:
        """The final figures, and the last value of validation nll."""
        return self.metrics | {point.key: point.value for point in self.points if point.key == "valid/nll"}


def read_sweep(path: Path) -> SweepRecord:
    """Reads a sweep file. ValueError names the file if it is not a sweep file; OSError if it cannot be read."""
    try:
        record = sweep_files.read(path)
        sweep_id = str(record["sweep_id"])
        return SweepRecord(sweep_id, str(record.get("name") or sweep_id), int(record["started"] * 1000), sweep_files.rows_of(record))
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"{path}: not a sweep file ({type(error).__name__}: {error})") from error


def read_result(roots: Sequence[Path], row: SweepRow, sweep: SweepRecord) -> RunResult | None:
    """The results of a row; None if there are none, or, with a warning, if a file holds the record of another run."""
    ledger = Ledger(roots[0], roots[1:])
    scored = [f"score/{keys.score or '':.16}.json" for keys in row.scorings.values()]
    began, *others = (_modified(ledger, row.train, name) for name in ("spec.yaml", "history.jsonl"))
    recorded = [_modified(ledger, row.train, name) for name in ("train.json", f"decode/{row.keys.decode or '':.16}.json", *scored)]
    if not any((began, *others, *recorded)):
        return None
    try:
        view = RunView.read(ledger, row.scorings, row.record.get("failed_below"))
        capsule = view.capsule or {}
        train, decode, score = view.training, view.decoding or {}, view.score or {}
    except UserError as error:
        log_once(f"warning: {error}")
        return None
    also = {name: record or {} for name, record in view.scores.items() if name}
    state = "running" if view.status in ("new", "trained") else view.status
    start = began or sweep.started
    points = read_points(ledger.reports(row.train), start)
    ended = max(filter(None, recorded), default=start) if state in STATUSES else start
    if points and (state == "stopped" or state not in STATUSES):  # the record of a stopped run is written at the sweep's end
        ended = points[-1].time
    tags = {
        "nmt.reason": view.outcome.reason,
        "nmt.ended_by": train.get("ended_by"),
        "nmt.signature": score.get("signature"),
        "nmt.weights_sha256": train.get("weights_sha256"),
        "nmt.best_step": train.get("best_step"),
        "nmt.corpus_sha256": (train.get("text") or {}).get("sha256"),
        "mlflow.source.git.commit": capsule.get("git_commit"),
    }
    about = [train, {k: v for k, v in decode.items() if k != "tokens"}, score, len(points), points[-1:]]
    content = hashlib.sha256(json.dumps(about + [also] * bool(also), default=str).encode()).hexdigest()
    known = {name: str(value) for name, value in tags.items() if value}
    return RunResult(row, state, start, ended, _finals(train, decode, score, also), points, view, known, content)


def _modified(ledger: Ledger, train_key: str, name: str) -> int | None:
    """When a file of a run, or the table of a packed run, was written, in milliseconds; None if there is none."""
    for run in ledger.places(train_key):
        line = line_of(run / name)
        with contextlib.suppress(OSError):
            return int((run / name if line is None else line.path).stat().st_mtime_ns / 1e6)
    return None


def _finals(train: Record, decode: Record, score: Record, also: Mapping[str, Record]) -> dict[str, float]:
    found = {"bleu": score.get("bleu"), "chrf": score.get("chrf", {}).get("score"), "tokens_per_second": train.get("tokens_per_second")}
    found |= {"sentences_per_second": decode.get("sentences_per_second")}
    found |= {name: train.get(name) for name in ("params", "steps", "seconds")}
    found |= {f"bleu_{name}": score.get(name, {}).get("score") for name in ("sacrebleu", "tokenised", "mteval")}
    found |= {name: score.get(name) for name in ROUGE}
    found |= {f"bleu_{name}": other.get("bleu") for name, other in also.items()}
    found |= {f"{figure}_{name}": other.get(figure) for name, other in also.items() for figure in ROUGE}
    return {name: figure for name, value in found.items() if (figure := number(value)) is not None}
