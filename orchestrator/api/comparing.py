"""The verdict on the difference of two rows, and trained models."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Unpack

from orchestrator.api.targets import Target, Where, find
from orchestrator.cli.commands.rows import only
from orchestrator.errors import UserError
from orchestrator.lifecycle.loader import Translator
from orchestrator.lifecycle.translator import load_translator
from orchestrator.report.claims import Comparisons, reported_claims
from orchestrator.specs.claims import RowClaim


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
    ours, base = only(a, first.rows), only(b, second.rows)
    if ours.id == base.id:
        raise UserError(f"{a}: compared with itself; expected two rows")
    finder, rows = first.finder, [base, ours]
    outcomes = {row.id: finder.outcomes(row, seeds or [1]) for row in rows}
    starts = {ours.id: base.id}
    stated = reported_claims(rows, starts) or [RowClaim(ours.id, base.id, None)]
    compared = Comparisons(rows, outcomes, starts, finder.reader, stated)
    (found,) = (record for record in compared.of_claims() if record["row"] == ours.id)
    effect = found["effect"] or {}
    interval = effect.get("other_seeds_and_sentences") or {}
    done, of_base = (sum(o.status == "done" for o in outcomes[row.id]) for row in (ours, base))
    said = {name: found[name] for name in ("verdict", "reason", "claim", "seeds_needed")}
    said |= {"delta": effect.get("delta"), "p": effect.get("p"), "low": interval.get("low"), "high": interval.get("high")}
    return Comparison(ours.id, base.id, **said, seeds=(done, of_base))


def load(target: Target, seed: int = 1, **where: Unpack[Where]) -> Translator:
    """The trained model of one row; its `translate` takes a list of sentences and returns their translations.

    Raises UserError where the row was not trained with this seed, its weights are gone, or its corpus is absent.
    """
    found = find(target, where, seed)
    return load_translator(only(target, found.rows), found.options)
