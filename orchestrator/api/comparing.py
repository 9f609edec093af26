"""The verdict on the difference of two rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Unpack

from orchestrator.api.targets import Target, Where, find
from orchestrator.errors import UserError
from orchestrator.report.claims import NOT_COMPARED, NOT_RUN, Comparisons
from orchestrator.scoring.significance.reader import StatisticsReader


@dataclass(frozen=True)
class Comparison:
    """How row `a` differs from row `b`, as `nmt-ablate verdict` judges it (docs/verdicts.md).

    Args:
        verdict: `reproduced`, `contradicted`, `undecided`, `one seed`, `not run` and so on. reason: why.
        delta: Mean of a minus mean of b, in points of BLEU (ROUGE-L for summaries); None where one of them has no figures.
        low, high: The 95 % interval of delta, over other seeds and other sentences; None for one seed.
        p: Two-sided; None for one seed.
        claim: The difference that the paper reports, if it does.
        seeds: Finished seeds of a and of b.
        seeds_needed: Seeds of each row that would decide; None where that is not known.
    """

    a: str
    b: str
    verdict: str
    reason: str
    delta: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    claim: float | None = None
    seeds: tuple[int, int] = (0, 0)
    seeds_needed: int | None = None


def compare(a: Target, b: Target, *, seeds: Iterable[int] = (), **where: Unpack[Where]) -> Comparison:
    """Compares two rows over all their finished seeds. a, b: rows by address or file.

    p is that of this one comparison; `nmt-ablate verdict` and `table` adjust theirs for all rows of the table.

    seeds: also searched for, besides those in the ledger. Raises UserError for rows that are the same, unknown or not valid.
    """
    first, second = find(a, where), find(b, where)
    ours, base = first.one(a), second.one(b)
    if ours.id == base.id:
        raise UserError(f"{a}: compared with itself; expected two rows")
    finder, rows = first.finder, [base, ours]
    outcomes = {row.id: finder.outcomes(row, seeds or [1]) for row in rows}
    reader = StatisticsReader(finder.ledger, finder.prepared)
    compared = Comparisons(rows, outcomes, {ours.id: base.id}, reader, setting=first.options.profile or "")
    known = compared.of_rows().get(ours.id)
    done = {row.id: sum(o.status == "done" for o in outcomes[row.id]) for row in rows}
    seeds = (done[ours.id], done[base.id])
    if known is None:
        lacking = [row_id for row_id, count in done.items() if not count]
        if lacking:
            return Comparison(ours.id, base.id, NOT_RUN, f"no finished run of {' and '.join(lacking)}", seeds=seeds)
        return Comparison(ours.id, base.id, NOT_COMPARED, "the same run, scored in another way, or no sentence statistics", seeds=seeds)
    about, effect = known["verdict"], known.get("effect") or {}
    answer = effect.get("other_seeds_and_sentences") or {}
    return Comparison(
        ours.id,
        base.id,
        about["word"],
        about["reason"],
        delta=effect.get("delta"),
        low=answer.get("low"),
        high=answer.get("high"),
        p=effect.get("p"),
        claim=about.get("claim"),
        seeds=seeds,
        seeds_needed=about["seeds_needed"],
    )
