"""Weight snapshots (`train.snapshots`), and new translations."""

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
from orchestrator.scoring.scores import References
from orchestrator.specs.schema import RunSpec


def references_of(prepared: Prepared, lines: list[list[str]], tokenised: list[str]) -> References:
    """Returns reference streams of any sentences, given as running text and as tokens."""
    return cast(
        References,
        SimpleNamespace(
            target_language=prepared.target_language,
            references=lambda split: lines,
            reference_text=lambda split: lines,
            tokenise=lambda stream, side: tokenised,
        ),
    )


def translate(model: nn.Module, ids: Sequence[Sequence[int]], spec: RunSpec, prepared: Prepared) -> tuple[list[str], list[str]]:
    """Translates with the row's own search; returns (text, tokens) with one line per source."""
    best = [hypothesis.ids for hypothesis in decode_corpus(model, ids, spec.search)]
    return prepared.decode(best), prepared.decode_tokens(best)


def snapshots_of(context: AnalysisContext, subject: Subject) -> dict[int, Path]:
    return {int(path.stem.removeprefix("step-")): path for path in context.store(subject).snapshots()}


def load_into(model: nn.Module, context: AnalysisContext, subject: Subject, path: Path) -> None:
    """Gives the model the weights of a snapshot. Raises UserError for a corrupt file."""
    try:
        copy_into(model, context.store(subject).load_snapshot(path))
    except CorruptError as error:
        raise UserError(f"{path}: {error}") from None
