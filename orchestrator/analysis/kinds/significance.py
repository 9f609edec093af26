"""Significance of a row's difference to its baseline under resampling of sentences: sign test and paired bootstrap, for each seed.

Both tests are always run. `significance` of the analysis row or the row's file decides the mark, else both tests. The baseline is the row
with which the table compares a row (`specs.row.starts`), or for a row in no table the row that it starts from.
"""

from collections.abc import Iterable
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

from orchestrator.analysis.base import Analysis, AnalysisContext, Records, Subject, register
from orchestrator.errors import UserError
from orchestrator.ledger.keys import Keys
from orchestrator.report.find import Finder
from orchestrator.scoring.significance.paired_tests import compare, in_words
from orchestrator.specs.row import Row, starts
from orchestrator.specs.rows import resolve
from orchestrator.specs.table import TestName

SHOWN = ["label", "seed", "baseline", "delta", "low", "high", "mark", "p_sign", "p_bootstrap"]


@register("significance", over_seeds=True)
def analyse(context: AnalysisContext) -> Analysis:
    """Returns one record per row and seed common to row and baseline. Raises UserError if no row has a baseline with a finished run."""
    finder = context.finder
    records: Records = []
    missing: list[str] = []
    tests: dict[TestName, None] = {}
    for subject in context.subjects:
        if (base := _baseline(subject, context, missing)) is None:
            continue
        seeds = _common_seeds(subject.row, base, finder)
        if not seeds:
            missing.append(f"{subject.row.id}: {base.id} is the same run, or has none of a seed of this row, scored on the same test set")
        named = subject.analysis_row.significance if subject.analysis_row is not None else None
        test: TestName = named or subject.row.significance or "both"  # type: ignore[assignment]
        for seed, (ours, theirs) in seeds.items():
            counts = [finder.reader.of(keys).get("bleu") for keys in (ours, theirs)]
            if counts[0] is None or counts[1] is None:
                raise UserError(f"{subject.row.id} seed {seed}: {context.ledger.root} has no sentence statistics of BLEU for both rows")
            comparison = compare(counts[0], counts[1], subject.spec.score)
            values = {name: value if isinstance(value, int) else float(f"{value:.8g}") for name, value in asdict(comparison).items()}
            about = {"test": test, "mark": comparison.mark(test)}
            records.append(subject.columns | {"seed": seed, "baseline": base.id} | values | about)
            tests[test] = None
    if not records:
        raise UserError(*(missing or [f"{context.subjects[0].row.id}: found no row to compare with it; name both rows"]))
    return Analysis(records, notes=_notes(records, tests) + missing, shown=SHOWN)


def _baseline(subject: Subject, context: AnalysisContext, missing: list[str]) -> Row | None:
    """Returns the baseline of a row; None for the baseline itself, or with a line in `missing` if it is not among the subjects."""
    row = subject.row
    first = starts(_rows_of(row.source_file)).get(row.id) if Path(row.source_file).is_file() else None
    if first is None:
        return row.parent
    known = {each.id: each for each in (row.parent, *(s.row for s in context.subjects)) if each is not None}
    if first not in known:
        missing.append(f"{row.id}: its baseline {first} is not among the finished rows asked for; name it too")
    return known.get(first)


_rows_of = cache(resolve)


def _common_seeds(row: Row, base: Row, finder: Finder) -> dict[int, tuple[Keys, Keys]]:
    """Maps each seed of which both runs are scored, with the row's scoring settings, to the keys of both."""
    rows = row, base.rescored(row.run_spec.score)
    both = [{o.seed: o.keys for o in finder.outcomes(one, [row.run_spec.seed]) if o.status == "done"} for one in rows]
    return {seed: (both[0][seed], both[1][seed]) for seed in both[0] if seed in both[1] and both[0][seed].score != both[1][seed].score}


def _notes(records: list[dict[str, Any]], tests: Iterable[TestName]) -> list[str]:
    notes = [
        *map(in_words, tests),
        "sign test: does the baseline's BLEU rise or fall when one of its sentences is exchanged for the row's; "
        "low, high: 95 % interval of the bootstrap",
        "both tests ask whether other sentences would say otherwise, for these weights; whether other seeds would is another "
        "question, which only the spread over seeds speaks to",
    ]
    if len({record["seed"] for record in records}) == 1:
        notes.append(f"one seed ({records[0]['seed']}): nothing here says how much another one would change")
    return notes
