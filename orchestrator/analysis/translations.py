"""Weight snapshots (`train.snapshots`), new translations and their BLEU, and BLEU of subsets of a test set."""

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import cast

from torch import nn

from orchestrator.analysis.base import AnalysisContext, Subject
from orchestrator.data.store import Prepared
from orchestrator.decoding.translate import decode_corpus
from orchestrator.errors import UserError
from orchestrator.ledger.weights import CorruptError, copy_into
from orchestrator.scoring.scores import References, score
from orchestrator.specs.schema import RunSpec


def references_of(prepared: Prepared, lines: list[list[str]], text: list[list[str]], tokenised: list[str] | None = None) -> References:
    """Returns reference streams of any sentences, given as lines of the corpus and as running text.

    tokenised: as tokens; None: as `prepared` does it.
    """
    return cast(
        References,
        SimpleNamespace(
            target_language=prepared.target_language,
            references=lambda split: lines,
            reference_text=lambda split: text,
            tokenise=lambda stream, side: prepared.tokenise(stream, side) if tokenised is None else tokenised,
        ),
    )


def translate(model: nn.Module, ids: Sequence[Sequence[int]], spec: RunSpec, prepared: Prepared) -> tuple[list[str], list[str]]:
    """Translates with the row's own search; returns (text, tokens) with one line per source."""
    best = [hypothesis.ids for hypothesis in decode_corpus(model, ids, spec.search)]
    return prepared.decode(best), prepared.decode_tokens(best)


def bleu(lines: tuple[Sequence[str], Sequence[str]], references: References, split: str, spec: RunSpec) -> float:
    return round(float(score(*lines, references, split, spec.score)["bleu"]), 4)


def snapshots_of(context: AnalysisContext, subject: Subject) -> dict[int, Path]:
    return {int(path.stem.removeprefix("step-")): path for path in context.store(subject).snapshots()}


def load_into(model: nn.Module, context: AnalysisContext, subject: Subject, path: Path) -> None:
    """Gives the model the weights of a snapshot. Raises UserError for a corrupt file."""
    try:
        copy_into(model, context.store(subject).load_snapshot(path))
    except CorruptError as error:
        raise UserError(f"{path}: {error}") from None
