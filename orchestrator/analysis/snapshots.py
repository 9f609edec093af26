"""Weight snapshots saved during training (`train.snapshots`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from orchestrator.analysis.base import AnalysisContext, Subject
from orchestrator.errors import UserError
from orchestrator.ledger.weights import CorruptError, Tensors, load_snapshot, snapshots


def snapshots_of(context: AnalysisContext, subject: Subject) -> list[Path]:
    """Returns the snapshot files of a row, oldest first."""
    return snapshots(context.store(subject).run_dir / "snapshots")


def step_of(path: Path) -> int:
    return int(path.stem.removeprefix("step-"))


def load(subject: Subject, paths: Sequence[Path]) -> Iterator[Tensors]:
    """Yields the verified weights of each file. Raises UserError for a corrupt file."""
    for path in paths:
        try:
            yield load_snapshot(path, key=subject.train_key)
        except CorruptError as error:
            raise UserError(f"{path}: {error}") from None


def missing_snapshots(subject: Subject, count: int) -> str:
    again = f"train it with --set train.snapshots={count} (another key, so a run of its own)"
    return f"{subject.row.id}: found no snapshots of its weights; {again}"
