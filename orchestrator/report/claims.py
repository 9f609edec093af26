"""The comparisons of a table and their verdicts: on the claims of its file and on the differences that its paper reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from orchestrator.report import looks, noise_floor
from orchestrator.report.effects import Effect, Effects, Outcomes, claimed, failure_verdict, main_metric
from orchestrator.scoring.significance.reader import StatisticsReader
from orchestrator.scoring.significance.verdicts import CONTRADICTED, DECIDED, ONE_SEED, UNDERPOWERED, Verdict
from orchestrator.specs.claims import RowClaim
from orchestrator.specs.row import Row
from orchestrator.specs.table import FAILED

NOT_RUN, NOT_COMPARED = "not run", "not compared"


class Comparisons:
    """Each row against the one it starts from, against its matched controls and against those that claims name.

    Args:
        starts: row -> the row it is compared with (`specs.row`).
        stated: claims of the table's file. They stand beside the differences that the paper reports, in the place of an equal one.
        setting: how our setting differs from the paper's.
        level: of significance; None: that of the looks that the sweep of these rows took, else 0.05.

    p-values are adjusted over all comparisons of one metric (Holm).
    """

    def __init__(
        self,
        rows: Sequence[Row],
        outcomes: Outcomes,
        starts: Mapping[str, str],
        reader: StatisticsReader,
        stated: Sequence[RowClaim] = (),
        *,
        setting: str = "",
        level: float | None = None,
    ) -> None:
        self.rows = {row.id: row for row in rows}
        self.outcomes, self.setting = outcomes, setting
        self.starts = {row_id: base for row_id, base in starts.items() if self.rows[row_id].control is None}
        self.level = looks.level(reader.ledger, outcomes) if level is None else level
        self.controls: dict[str, dict[str, str]] = {}  # row -> kind -> address of the control
        for row in rows:
            if row.control is not None:
                self.controls.setdefault(row.control.against, {})[row.control.kind] = row.id
        self.claims = self._judged(stated)
        pairs = [(self._metric(row_id), row_id, base) for row_id, base in self.starts.items()]
        pairs += [(str(claim.metric), claim.row, str(claim.against)) for claim in self.claims]
        pairs += [(metric, row_id, base) for metric, row_id, _ in pairs for base in self.controls.get(row_id, {}).values()]
        floor = noise_floor.floors(reader.ledger, self.rows)
        self.effects: dict[str, dict[tuple[str, str], Effect]] = {}
        for metric in dict.fromkeys(metric for metric, _, _ in pairs):
            its = dict.fromkeys((row_id, base) for other, row_id, base in pairs if other == metric)
            self.effects[metric] = Effects(rows, outcomes, reader, metric, floor).of(its)

    def of_claims(self) -> list[dict[str, Any]]:
        """One record a claim.

        {"row", "against", "metric", "claim", "source", "verdict", "reason", "seeds_needed", "level", "setting", "effect"}; where a row has
        matched controls {"controls": {kind: {"against", "verdict", "reason", "seeds_needed", "level", "effect"}}} too.
        """
        records = []
        for claim in self.claims:
            about = {"row": claim.row, "against": claim.against, "metric": claim.metric, "claim": claim.effect, "source": claim.source}
            about |= {"margin": claim.margin} if claim.margin is not None else {}
            record = about | self._record(claim) | {"setting": self.setting}
            others = {kind: replace(claim, against=base) for kind, base in self.controls.get(claim.row, {}).items()}
            matched = {kind: {"against": c.against} | self._record(c) | self._same(claim.row, c.against) for kind, c in others.items()}
            records.append(record | ({"controls": matched} if matched else {}))
        return records

    def of_table(self) -> list[dict[str, Any]]:
        """{"row", "against", "metric", "claim", "own"} of each claim, with the {"effect", "verdict"} of `of_rows`.

        own: it is on the row's own metric, against the row that it is compared with, so that `of_rows` judges it too.
        """
        found = []
        for claim in self.claims:
            own = (claim.against, claim.metric) == (self.starts.get(claim.row), self._metric(claim.row))
            about = {"row": claim.row, "against": claim.against, "metric": claim.metric, "claim": claim.effect, "own": own}
            effect = self._effect(claim.row, claim.against, str(claim.metric))
            found.append(about | self._found(claim.row, claim.against, effect, claim))
        return found

    def of_rows(self) -> dict[str, dict[str, Any]]:
        """Row -> {"effect", "significant", "verdict", "controls"} of each row that has an effect or failed, for the row's own metric.

        controls: kind -> the same against the row's matched control, with {"is_baseline": True} where both are one run. A verdict is
        {"word", "reason", "seeds_needed"}, with {"claim", "setting"} where there are any.
        """
        found = {}
        for row_id in self.rows:
            base, metric = self.starts.get(row_id), self._metric(row_id)
            claim = next((c for c in self.claims if (c.row, c.against, c.metric) == (row_id, base, metric)), None)
            one = self._row(row_id, base, claim)
            controls = {kind: c for kind, c in self.controls.get(row_id, {}).items() if self._effect(row_id, c, metric) is not None}
            matched = {kind: self._row(row_id, control, claim) | self._same(row_id, control) for kind, control in controls.items()}
            if one or matched:
                found[row_id] = one | ({"controls": matched} if matched else {})
        return found

    def _judged(self, stated: Sequence[RowClaim]) -> list[RowClaim]:
        """The stated claims whose rows are here, and the paper's on other comparisons."""

        def complete(claim: RowClaim) -> RowClaim:
            against, metric = claim.against or self.starts.get(claim.row), claim.metric or self._metric(claim.row)
            return replace(claim, against=against, metric=metric)

        own = [complete(c) for c in stated if c.row in self.rows and (c.against is None or c.against in self.rows)]
        said = {(c.row, c.against, c.metric) for c in own}
        reported = map(complete, reported_claims(list(self.rows.values()), self.starts))
        return own + [c for c in reported if (c.row, c.against, c.metric) not in said]

    def _same(self, row: str, control: str | None) -> dict[str, Any]:
        """Marks a matched control whose runs are those of the row's baseline."""
        runs = [{(o.seed, o.keys.score) for o in self.outcomes.get(name or "", ())} for name in (control, self.starts.get(row))]
        return {"is_baseline": True} if runs[0] and runs[0] == runs[1] else {}

    def _record(self, claim: RowClaim) -> dict[str, Any]:
        effect = self._effect(claim.row, claim.against, str(claim.metric))
        verdict = self._verdict(claim.row, claim.against, effect, claim)
        plain = {"verdict": verdict.word, "reason": verdict.reason, "seeds_needed": verdict.seeds, "level": self.level}
        return plain | {"effect": None if effect is None else effect.as_json()}

    def _row(self, row: str, against: str | None, claim: RowClaim | None) -> dict[str, Any]:
        effect = self._effect(row, against, self._metric(row))
        if effect is None and failure_verdict(self.rows[row], self.outcomes.get(row, ())) is None:
            return {}
        return self._found(row, against, effect, claim)

    def _found(self, row: str, against: str | None, effect: Effect | None, claim: RowClaim | None) -> dict[str, Any]:
        verdict = self._verdict(row, against, effect, claim)
        about: dict[str, Any] = {"word": verdict.word, "reason": verdict.reason, "seeds_needed": verdict.seeds}
        about |= ({"claim": claim.effect} if claim is not None else {}) | ({"setting": self.setting} if self.setting else {})
        if effect is None:
            return {"verdict": about}
        tested = {} if effect.p is None else {"significant": effect.p < self.level and effect.delta > 0}
        return {"effect": effect.as_json(), "verdict": about} | tested

    def _verdict(self, row: str, against: str | None, effect: Effect | None, claim: RowClaim | None) -> Verdict:
        failed = failure_verdict(self.rows[row], self.outcomes.get(row, ()))
        if failed is not None:
            return failed
        if effect is None:
            lacking = [name for name in (row, str(against)) if all(o.status != "done" for o in self.outcomes.get(name, ()))]
            if lacking:
                return Verdict(NOT_RUN, f"no finished run of {' and '.join(lacking)}")
            return Verdict(NOT_COMPARED, "the same run as the row it is compared with, scored in another way, or no sentence statistics")
        found = effect.verdict(None if claim is None else claim.effect, None if claim is None else claim.margin, self.level)
        if claim is not None and found.word != ONE_SEED and min(effect.seeds) < claim.seeds:
            return Verdict(UNDERPOWERED, f"{min(effect.seeds)} of the claim's {claim.seeds} seeds are done", found.seeds)
        return found

    def _effect(self, row: str, against: str | None, metric: str) -> Effect | None:
        return self.effects.get(metric, {}).get((row, str(against)))

    def _metric(self, row: str) -> str:
        return main_metric(self.rows[row])


def reported_claims(rows: Sequence[Row], starts: Mapping[str, str]) -> list[RowClaim]:
    """A claim for each row of kind run whose difference to the row it is compared with the paper reports, or that failed there."""
    by_id = {row.id: row for row in rows}
    found = []
    for row in rows:
        effect = claimed(row, by_id.get(starts.get(row.id, "")))
        if row.spec is not None and row.control is None and row.id in starts and (effect is not None or row.expect.get("bleu") == FAILED):
            found.append(RowClaim(row.id, starts[row.id], effect or 0.0, source="paper"))
    return found


def exit_code(records: Sequence[Mapping[str, Any]]) -> int:
    """0: all reproduced, in the same direction, higher or lower; 6: some contradicted; 7: none contradicted, but some undecided."""
    words = {record["verdict"] for record in records}
    if CONTRADICTED in words:
        return 6
    return 7 if words - set(DECIDED) else 0
