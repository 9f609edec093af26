"""Lead-n: the first sentences of an article as its summary (Lead3 in Wei et al. 2020, Table 6), on the row's own data, scored by ROUGE."""

from __future__ import annotations

from orchestrator.analysis.base import Analysis, AnalysisContext, Records, register
from orchestrator.data.sentences import JOINT, sentences_of
from orchestrator.errors import UserError
from orchestrator.scoring.rouge import FIGURES, rouge
from orchestrator.specs.bleu_tokenizer import rouge_tokenizer_of


@register("lead", options={"sentences": "3"}, needs_runs=False)
def analyse(context: AnalysisContext) -> Analysis:
    """Returns one record per corpus and test set of the rows. Raises UserError if their text is missing or has no documents."""
    count = context.integer("sentences", 1)
    records: Records = []
    seen = set()
    for subject in context.subjects:
        corpus, test = str(subject.spec.data.corpus), subject.spec.score.test
        if (corpus, test) in seen:
            continue
        seen.add((corpus, test))
        prepared = context.prepared(subject)
        if not prepared.documents:
            raise UserError(f"{subject.row.id}: corpus {corpus} is of single sentences; expected documents, as in cnn-dailymail")
        leads = lead(prepared.sources(test), count)
        scores = rouge(leads, prepared.reference_text(test), rouge_tokenizer_of(subject.spec.score, prepared.target_language))
        row = (subject.analysis_row or subject.row).id
        record = {"row": row, "label": f"Lead{count}", "corpus": corpus, "test": test, "sentences": count, "summaries": len(leads)}
        records.append(record | {name: round(scores[name], 4) for name in FIGURES} | {"signature": scores["signature"]})
    notes = ["articles are whole here: data.truncate shortens what a model reads, not the lead"]
    return Analysis(records, notes=notes)


def lead(documents: list[str], count: int) -> list[str]:
    """Returns the first `count` sentences of each document as its summary."""
    return [JOINT.join(sentences_of(line)[:count]) for line in documents]
