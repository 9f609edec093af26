"""Lead-n: the first sentences of an article as its summary (Lead3 of Wei et al. 2020, Table 6), by the row's own data and scorer."""

from __future__ import annotations

from typing import Any

from orchestrator.analysis.base import Analysis, Context
from orchestrator.analysis.options import whole
from orchestrator.data.sentences import JOINT, sentences_of
from orchestrator.errors import UserError
from orchestrator.scoring.rouge import FIGURES, rouge

OPTIONS = {"sentences": "3"}
NEEDS_RUNS = False
COLUMNS = ["row", "label", "corpus", "test", "sentences", "summaries", *FIGURES, "signature"]


def analyse(context: Context) -> Analysis:
    """A record for each corpus and test set of the rows. Nothing is trained: rows need no run. UserError where their text is absent."""
    count = whole(context, "sentences", 1)
    records: list[dict[str, Any]] = []
    seen = set()
    for subject in context.subjects:
        spec = subject.spec
        if (place := (spec.data.corpus, spec.score.test)) in seen:
            continue
        seen.add(place)
        prepared = context.prepared(subject)
        if not prepared.documents:
            raise UserError(f"{subject.row.id}: corpus {spec.data.corpus} is of single sentences; expected documents, as in cnn-dailymail")
        leads = lead(prepared.sources(spec.score.test), count)
        found = rouge(leads, prepared.reference_text(spec.score.test))
        about = {
            "row": subject.asked.id if subject.asked else subject.row.id,
            "label": f"Lead{count}",
            "corpus": place[0],
            "test": place[1],
        }
        figures = {name: round(found[name], 4) for name in FIGURES}
        records.append(about | {"sentences": count, "summaries": len(leads)} | figures | {"signature": found["signature"]})
    notes = ["articles are whole here: data.truncate shortens what a model reads, not the lead"]
    return Analysis("lead", COLUMNS, records, notes=notes)


def lead(documents: list[str], count: int) -> list[str]:
    """The first sentences of each document, as a summary."""
    return [JOINT.join(sentences_of(line)[:count]) for line in documents]
