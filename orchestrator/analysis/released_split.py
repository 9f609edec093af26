"""The four parts of the test set released with Wei et al. 2020: test.src.part0..3 and test.tgt.part0..3, English to German, IWSLT14.

The source is in subwords (`@@ `). Both sides are lowercased Moses tokens, with escaped characters in the source. The unescaped tokens are
split into the row's own subwords directly, because detokenising and tokenising again would change 258 of the 6,694 sources and 489
references. They are escaped again if the row's corpus is escaped. References are detokenised for metrics that need text.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from pathlib import Path

from rich.progress import Progress

from orchestrator.analysis.base import AnalysisContext, Records, Subject
from orchestrator.analysis.translations import TextReferences, bleu, translate
from orchestrator.data.corpus import read_lines
from orchestrator.data.tokenize import Tokenizer, escaped
from orchestrator.errors import UserError
from orchestrator.specs.text_form import ESCAPED, RAW

LANGUAGES = ["en", "de"]
Part = tuple[list[str], list[str]]


def analyse_released(context: AnalysisContext, parts: dict[str, Part], bars: Progress, notes: list[str]) -> Records:
    """Translates and scores all parts (name -> sources, references) with each row that has weights; rows without get a note."""
    records: Records = []
    for subject in context.subjects:
        if not context.store(subject).has_weights():
            notes.append(f"{subject.row.id}: its weights are not in {context.ledger.root}; left out of the released split")
            continue
        languages = list(context.prepared(subject).manifest["languages"])
        if languages != LANGUAGES:
            notes.append(f"{subject.row.id} translates {'-'.join(languages)}, the released split is en-de: its BLEU there says nothing")
        records += _analyse_row(context, subject, parts, bars)
    return records


def _analyse_row(context: AnalysisContext, subject: Subject, parts: dict[str, Part], bars: Progress) -> Records:
    prepared, spec = context.prepared(subject), subject.spec
    model = context.model(subject).to(context.device())

    def as_corpus(lines: Sequence[str]) -> list[str]:
        return [escaped(line) for line in lines] if prepared.form == ESCAPED else list(lines)

    outputs: dict[str, tuple[list[str], list[str]]] = {}
    for name, (sources, _) in parts.items():
        outputs[name] = translate(model, prepared.encode_tokens(as_corpus(sources)), spec, prepared, bars, f"{subject.name} {name}")
    outputs["all"] = tuple([line for part in outputs.values() for line in part[side]] for side in (0, 1))  # type: ignore[assignment]
    whole = tuple([line for part in parts.values() for line in part[side]] for side in (0, 1))
    records: Records = []
    for name, (sources, references) in (parts | {"all": whole}).items():
        words = round(sum(len(source.split()) for source in sources) / max(1, len(sources)), 2)
        moses = spec.data.tokenizer == "moses" or prepared.form != RAW
        lines = detokenised(references, "de") if moses else references
        score = bleu(outputs[name], TextReferences(lines, as_corpus(references), prepared.target_language), "released", spec)
        columns = subject.columns | {"split": "released", "metric": spec.score.metric, "quartile": name}
        records.append(columns | {"sentences": len(sources), "words": words, "bleu": score})
    return records


def read(folder: Path) -> list[Part]:
    """Reads (sources, references) of each part as tokens: subwords are joined and characters unescaped.

    Raises UserError if the two sides differ in length or are empty.
    """
    parts = []
    for number in range(4):
        sources, targets = (read_lines(folder / f"test.{side}.part{number}") for side in ("src", "tgt"))
        if len(sources) != len(targets) or not sources:
            raise UserError(f"{folder}: part {number} has {len(sources)} sources and {len(targets)} references; expected as many of both")
        parts.append(([join_subwords(line) for line in sources], [html.unescape(line) for line in targets]))
    return parts


def join_subwords(line: str) -> str:
    """Joins subwords and unescapes characters: `6@@ 0,000 &apos;s` -> `60,000 's`."""
    return html.unescape(line.replace("@@ ", "").removesuffix("@@"))


def detokenised(lines: Sequence[str], language: str) -> list[str]:
    """Turns Moses tokens into text."""
    return Tokenizer(language, "moses", lowercase=False).detokenise(lines)
