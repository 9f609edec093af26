"""Translations that no run has made: of training pairs, of other texts, by other weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from orchestrator.analysis.base import Context, choice
from orchestrator.analysis.progress import Bars
from orchestrator.analysis.timing import device_of
from orchestrator.decoding.translate import decode_corpus
from orchestrator.scoring.scores import References, score
from orchestrator.specs.schema import RunSpec

if TYPE_CHECKING:
    from orchestrator.data.store import Prepared


@dataclass(frozen=True)
class Lines:
    """One reference stream, as scoring asks for it: text, and the same as tokens."""

    lines: Sequence[str]
    tokens: Sequence[str]
    target_language: str

    def references(self, split: str) -> list[list[str]]:
        return [list(self.lines)]

    def reference_text(self, split: str) -> list[list[str]]:
        return [list(self.lines)]

    def tokenise(self, lines: list[str], side: Any) -> list[str]:
        return list(self.tokens)


def bleu_of(
    model: nn.Module,
    ids: Sequence[Sequence[int]],
    references: References,
    split: str,
    spec: RunSpec,
    prepared: Prepared,
    bars: Bars,
    name: str,
) -> float:
    """BLEU of the model's translations of `ids`, searched and scored as the row's own are."""
    return bleu(translations(model, ids, spec, prepared, bars, name), references, split, spec)


def translations(
    model: nn.Module, ids: Sequence[Sequence[int]], spec: RunSpec, prepared: Prepared, bars: Bars, name: str
) -> tuple[list[str], list[str]]:
    """(text, tokens), one line for each source, by the row's own search."""
    bar, done = bars.bar(name, len(ids), "sentences"), 0

    def progress(now: int, total: int) -> None:
        nonlocal done
        bar(now - done)
        done = now

    found = [hypotheses[0].ids for hypotheses in decode_corpus(model, ids, spec.search, on_progress=progress)]
    bar.close()
    return prepared.decode(found), prepared.decode_tokens(found)


def bleu(made: tuple[Sequence[str], Sequence[str]], references: References, split: str, spec: RunSpec) -> float:
    """By the metric of the row. 4 digits behind the point."""
    return round(float(score(*made, references, split, spec.score)["bleu"]), 4)


def device_option(context: Context) -> torch.device:
    """`device` is auto, cpu or cuda. UserError for another word, and for a GPU that is not there."""
    return device_of(choice("device", context.options["device"], ("auto", "cpu", "cuda")))
