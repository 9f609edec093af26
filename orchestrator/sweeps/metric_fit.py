"""Does the metric fit the references? Tokens under a metric of running text, or text without spaces under one of words, give a figure
that nothing else shows to be wrong."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from orchestrator.data.text_form import consequence, misread, unspaced
from orchestrator.errors import UserError
from orchestrator.specs import corpora, languages
from orchestrator.specs.bleu_words import BY_LANGUAGE, check_installed, words_by
from orchestrator.specs.schema import DataSpec, ScoreSpec
from orchestrator.specs.text_form import RAW

if TYPE_CHECKING:
    from orchestrator.data.store import Prepared
    from orchestrator.sweeps.task import Task

BY_SPACES = ("13a", "intl", "none")


def check(tasks: Iterable[Task]) -> None:
    """UserError naming every row whose BLEU needs packages that are not here, while nothing has been trained yet."""
    problems = []
    for task in tasks:
        target = corpora.load_entry(task.run_spec.data.corpus).tgt
        for scoring in task.scorings.values():
            try:
                check_installed(scoring.spec, target)
            except UserError as error:
                problems.append(f"{task.id}: {error}")
    if problems:
        raise UserError(*dict.fromkeys(problems))


def warn(tasks: Sequence[Task], prepared: Prepared) -> None:
    """Lines on stderr, each once. `tasks`: of this corpus."""
    found = [line for task in tasks for s in task.scorings.values() for line in doubts(prepared, task.run_spec.data, s.spec)]
    for line in dict.fromkeys(found):
        print(f"warning: {line}", file=sys.stderr, flush=True)


def doubts(prepared: Prepared, data: DataSpec, score: ScoreSpec) -> list[str]:
    """Complete lines: why the figures of this scoring may not be what their name says."""
    if "generator" in prepared.manifest["text"] or prepared.documents:
        return []
    target = prepared.target_language
    found = [f"corpus {data.corpus}: tgt: {odd}" for odd in [languages.doubt(target)] if odd]
    for lines in prepared.references(score.test)[:1]:
        about = f"corpus {data.corpus}: references of {score.test}:"
        odd = misread(lines, prepared.form)
        harmless = prepared.form == RAW and data.tokenizer == "none" and score.metric == "multi-bleu"
        if odd is not None and not harmless:
            found.append(f"{about} {odd}, and its entry says text: {prepared.form}; {consequence(prepared.form)}")
        by = "multi-bleu" if score.metric == "multi-bleu" else words_by(score, target)
        if by in ("multi-bleu", *BY_SPACES) and unspaced(lines):
            better = BY_LANGUAGE.get(languages.base(target), "char")
            found.append(f"{about} hardly any spaces, by which {by} tells words; expected metric sacrebleu with tokenize: {better} or char")
    return found
