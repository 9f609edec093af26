"""The verdict on every claim of a table: the claims of its file, or else the differences that its paper reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from orchestrator.report import looks, noise_floor
from orchestrator.report.effects import Effect, Effects, Outcomes, claimed, failure_verdict, main_metric
from orchestrator.scoring.significance.reader import StatisticsReader
from orchestrator.scoring.significance.verdicts import MARGINS, ONE_SEED, UNDERPOWERED, Verdict
from orchestrator.specs.claims import RowClaim
from orchestrator.specs.row import Row
from orchestrator.specs.table import FAILED

NOT_RUN, NOT_COMPARED = "not run", "not compared"


def reported_claims(rows: Sequence[Row], starts: Mapping[str, str]) -> list[RowClaim]:
    """A claim for each row of kind run whose difference to the row it is compared with the paper reports, or that failed there."""
    by_id = {row.id: row for row in rows}
    found = []
    for row in rows:
        effect = claimed(row, by_id.get(starts.get(row.id, "")))
        if row.spec is not None and row.control is None and row.id in starts and (effect is not None or row.expect.get("bleu") == FAILED):
            found.append(RowClaim(row.id, starts[row.id], effect or 0.0, source="paper"))
    return found


def judged(
    claims: Sequence[RowClaim],
    rows: Sequence[Row],
    outcomes: Outcomes,
    starts: Mapping[str, str],
    reader: StatisticsReader,
    setting: str = "",
    level: float | None = None,
) -> list[dict[str, Any]]:
    """One record a claim.

    {"row", "against", "metric", "claim", "source", "verdict", "reason", "seeds_needed", "level", "setting", "effect"}.

    A claim on a row with matched controls among `rows` has {"controls": {kind: {"against", "verdict", "reason", "effect"}}} too. p-values
    are adjusted over the comparisons of one metric (Holm). setting: how our setting differs from the paper's.
    level: of significance; None: that of the looks that the sweep of these rows took, else 0.05.
    """
    by_id = {row.id: row for row in rows}
    filled = [replace(c, against=c.against or starts.get(c.row), metric=c.metric or main_metric(by_id[c.row])) for c in claims]
    controls: dict[str, dict[str, str]] = {}  # row -> control's address -> its kind
    for row in rows:
        if row.control is not None:
            controls.setdefault(row.control.against, {})[row.id] = row.control.kind
    level = looks.level(reader.ledger, outcomes) if level is None else level
    floor = noise_floor.floors(reader.ledger, by_id)
    effects: dict[str, dict[tuple[str, str], Effect]] = {}
    for metric in dict.fromkeys(str(claim.metric) for claim in filled):
        own = [c for c in filled if c.metric == metric]
        pairs = [(c.row, c.against) for c in own if c.against is not None] + [
            (c.row, base) for c in own for base in controls.get(c.row, {})
        ]
        effects[metric] = Effects(rows, outcomes, reader, metric, floor).of(pairs)
    records = []
    for claim in filled:
        found = effects[str(claim.metric)]
        about = {"row": claim.row, "against": claim.against, "metric": claim.metric, "claim": claim.effect, "source": claim.source}
        about |= {"margin": claim.margin} if claim.margin is not None else {}
        record = about | _judged(claim, found, by_id[claim.row], outcomes, level) | {"setting": setting}
        matched = {
            kind: {"against": base} | _judged(replace(claim, against=base), found, by_id[claim.row], outcomes, level)
            for base, kind in controls.get(claim.row, {}).items()
        }
        records.append(record | ({"controls": matched} if matched else {}))
    return records


def _judged(claim: RowClaim, effects: Mapping[tuple[str, str], Effect], row: Row, outcomes: Outcomes, level: float) -> dict[str, Any]:
    effect = effects.get((claim.row, str(claim.against)))
    verdict = _verdict(claim, effect, row, outcomes, level)
    plain = {"verdict": verdict.word, "reason": verdict.reason, "seeds_needed": verdict.seeds, "level": level}
    return plain | {"effect": None if effect is None else effect.as_json()}


def _verdict(claim: RowClaim, effect: Effect | None, row: Row, outcomes: Outcomes, level: float) -> Verdict:
    failed = failure_verdict(row, outcomes.get(claim.row, ()))
    if failed is not None:
        return failed
    done = {name: [o for o in outcomes.get(name, ()) if o.status == "done"] for name in (claim.row, str(claim.against))}
    lacking = [name for name, seeds in done.items() if not seeds]
    if effect is None:
        if lacking:
            return Verdict(NOT_RUN, f"no finished run of {' and '.join(lacking)}")
        return Verdict(NOT_COMPARED, "scored in another way than the row it is compared with, or without sentence statistics")
    margin = claim.margin if claim.margin is not None else MARGINS.get(effect.metric)
    found = effect.verdict(claim.effect, margin, level)
    if found.word != ONE_SEED and min(effect.seeds) < claim.seeds:
        return Verdict(UNDERPOWERED, f"{min(effect.seeds)} of the claim's {claim.seeds} seeds are done", found.seeds)
    return found


def exit_code(records: Sequence[Mapping[str, Any]]) -> int:
    """0: all reproduced or in the same direction; 6: some contradicted; 7: none of these, but some undecided."""
    words = {record["verdict"] for record in records}
    if "contradicted" in words:
        return 6
    return 7 if words - {"reproduced", "same direction"} else 0
