"""Weight snapshots (`train.snapshots`), new translations and their BLEU, and BLEU of subsets of a test set."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.progress import Progress
from torch import nn

from orchestrator.analysis.base import AnalysisContext, Subject
from orchestrator.analysis.progress import progress_bar
from orchestrator.data.store import Prepared
from orchestrator.decoding.translate import decode_corpus
from orchestrator.errors import UserError
from orchestrator.ledger.weights import CorruptError, Tensors, load_snapshot, snapshots
from orchestrator.scoring.scores import References, score
from orchestrator.specs.schema import RunSpec


@dataclass(frozen=True)
class Streams:
    """Reference streams of any sentences, as lines of the corpus and as running text. tokenised: as tokens; None: as `prepared` does it."""

    lines: list[list[str]]
    text: list[list[str]]
    prepared: Prepared
    tokenised: list[str] | None = None

    @property
    def target_language(self) -> str:
        return self.prepared.target_language

    def references(self, split: str) -> list[list[str]]:
        return self.lines

    def reference_text(self, split: str) -> list[list[str]]:
        return self.text

    def tokenise(self, lines: list[str], side: Any) -> list[str]:
        return self.prepared.tokenise(lines, side) if self.tokenised is None else self.tokenised


def part_bleu(decoded: Any, prepared: Prepared, indices: Sequence[int], spec: RunSpec) -> float | None:
    """Returns BLEU of a subset of the row's own test set, None if it is empty. `decoded` is the record of the whole test set."""
    if not indices:
        return None
    test = spec.score.test
    parts = [[[stream[i] for i in indices] for stream in streams] for streams in (prepared.references(test), prepared.reference_text(test))]
    lines = [decoded["hypotheses"][i] for i in indices], [decoded["tokens"][i] for i in indices]
    return bleu(lines, Streams(parts[0], parts[1], prepared), test, spec)


def translate(
    model: nn.Module, ids: Sequence[Sequence[int]], spec: RunSpec, prepared: Prepared, bars: Progress, name: str
) -> tuple[list[str], list[str]]:
    """Translates with the row's own search; returns (text, tokens) with one line per source."""
    done = 0
    with progress_bar(bars, name, len(ids), "sentences") as advance:

        def on_progress(now: int, total: int) -> None:
            nonlocal done
            advance(now - done)
            done = now

        best = [hypotheses[0].ids for hypotheses in decode_corpus(model, ids, spec.search, on_progress=on_progress)]
    return prepared.decode(best), prepared.decode_tokens(best)


def bleu(lines: tuple[Sequence[str], Sequence[str]], references: References, split: str, spec: RunSpec) -> float:
    """Returns BLEU of (text, tokens) by the row's metric, rounded to 4 decimals."""
    return round(float(score(*lines, references, split, spec.score)["bleu"]), 4)


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
