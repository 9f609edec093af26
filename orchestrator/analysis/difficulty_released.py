"""The four parts of the test set that came with Wei et al. 2020: test.src.part0..3 and test.tgt.part0..3, English to German, IWSLT14.

The source holds subwords (`@@ `), both sides are Moses tokens in lower case, the source with escaped characters. Its tokens, unescaped, are
cut into the row's own subwords: made to text and tokenised once more, 258 of the 6,694 sources and 489 references would be other tokens.
Where the row's corpus is escaped, they are escaped again.
Detokenised references are made from the tokens, for metrics that need them.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from orchestrator.analysis.base import Context
from orchestrator.analysis.decoding import Lines, bleu, translations
from orchestrator.analysis.progress import Bars
from orchestrator.data.corpus import read_lines
from orchestrator.data.tokenize import Tokenizer, escaped
from orchestrator.errors import UserError
from orchestrator.specs.text_form import ESCAPED, RAW

LANGUAGES = ["en", "de"]
Part = tuple[list[str], list[str]]


def of_released(
    context: Context, folder: Path, names: Sequence[str], limit: int | None, device: torch.device, notes: list[str], bars: Bars
) -> list[dict[str, Any]]:
    """Translates all parts with each row that has weights here; others, and what is odd, go to the notes. UserError for bad files."""
    parts = [(sources[:limit], targets[:limit]) for sources, targets in read(folder)]
    if limit is not None:
        notes.append(f"released split: the first {limit} sentences of each part")
    records = []
    for subject in context.subjects:
        prepared, spec = context.prepared(subject), subject.spec
        if not context.store(subject).has_weights():
            notes.append(f"{subject.row.id}: its weights are not in {context.ledger.root}; left out of the released split")
            continue
        languages = list(prepared.manifest["languages"])
        if languages != LANGUAGES:
            notes.append(f"{subject.row.id} translates {'-'.join(languages)}, the released split is en-de: its BLEU there says nothing")
        model = context.model(subject).to(device)
        moses = spec.data.tokenizer == "moses" or prepared.form != RAW
        as_corpus = (lambda lines: [escaped(line) for line in lines]) if prepared.form == ESCAPED else list
        made: list[tuple[list[str], list[str], list[str]]] = []
        for name, (sources, targets) in zip(names, parts, strict=True):
            bar = f"{subject.row.id} seed {spec.seed} {name}"
            made.append((*translations(model, prepared.encode_tokens(as_corpus(sources)), spec, prepared, bars, bar), targets))
        made.append(tuple([line for part in made for line in part[i]] for i in range(3)))  # type: ignore[arg-type]
        every = [source for sources, _ in parts for source in sources]
        about = {"row": subject.row.id, "label": subject.label, "seed": spec.seed, "split": "released", "metric": spec.score.metric}
        for name, (texts, tokens, references), sources in zip([*names, "all"], made, [*(s for s, _ in parts), every], strict=True):
            words = round(sum(len(source.split()) for source in sources) / max(1, len(sources)), 2)
            lines = running(references, "de") if moses else references
            found = bleu((texts, tokens), Lines(lines, as_corpus(references), prepared.target_language), "released", spec)
            records.append(about | {"quartile": name, "sentences": len(sources), "words": words, "bleu": found})
    return records


def read(folder: Path) -> list[Part]:
    """(sources, references) of each part, subwords joined, characters unescaped, still tokenised. UserError where sides do not match."""
    parts = []
    for number in range(4):
        sources, targets = (read_lines(folder / f"test.{side}.part{number}") for side in ("src", "tgt"))
        if len(sources) != len(targets) or not sources:
            raise UserError(f"{folder}: part {number} has {len(sources)} sources and {len(targets)} references; expected as many of both")
        parts.append(([joined(line) for line in sources], [html.unescape(line) for line in targets]))
    return parts


def joined(line: str) -> str:
    """`6@@ 0,000 &apos;s` -> `60,000 's`."""
    return html.unescape(line.replace("@@ ", "").removesuffix("@@"))


def running(lines: Sequence[str], language: str) -> list[str]:
    """Moses tokens -> text."""
    return Tokenizer(language, "moses", lowercase=False).detokenise(lines)
