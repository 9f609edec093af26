"""The family of a table: its claims on each metric, each judged against its strongest control.

A claim is a difference that the paper reports, a claim of the file, or a row's difference without a prediction. Every command and option
uses the family of the whole table with every control that has results. P-values and verdicts are therefore the same everywhere.
"""

import math
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, cached_property, partial
from typing import Any

from orchestrator.files.canonical import digest
from orchestrator.ledger.keys import recorded
from orchestrator.report import noise_floor
from orchestrator.report.effects import DIGITS, Effect, Effects, Outcomes, claimed, failure_verdict, main_metric
from orchestrator.report.judgement import NOT_COMPARED, NOT_RUN, Judgement, OfRow
from orchestrator.report.looks import Looks, State, level_of
from orchestrator.scoring.significance.estimator import holm
from orchestrator.scoring.significance.expected_best import choice_variance
from orchestrator.scoring.significance.sentence_statistics import LOWER_IS_BETTER, StatisticsReader
from orchestrator.scoring.significance.verdicts import DECIDED, MARGINS, ONE_SEED, OPEN, Expectation, Verdict, judge, p_of
from orchestrator.specs.claims import RowClaim
from orchestrator.specs.row import Row, Trial, short_id
from orchestrator.specs.table import FAILED

BLEU, CHRF, NLL = "bleu", "chrf", "nll"


class Comparisons:
    """The judgements of a whole table.

    rows: rows of the table, with its matched controls.
    starts: row -> the row with which it is compared (`specs.row`).
    stated: claims of the table's file. They add to the differences that the paper reports and replace equal ones.
    usual: `starts` without `--baseline`, for the claims; default: starts.
    setting: how our setting differs from the paper's.
    planned: row -> the number of looks that a sweep plans for it. A claim with an earlier look keeps its earlier number.
    seen: rows whose judgements are shown. This look at their claims is recorded in the results folder; None: all rows.
    """

    def __init__(
        self,
        rows: Sequence[Row],
        outcomes: Outcomes,
        starts: Mapping[str, str],
        reader: StatisticsReader,
        stated: Sequence[RowClaim] = (),
        *,
        usual: Mapping[str, str] | None = None,
        setting: str = "",
        planned: Mapping[str, int] | None = None,
        seen: Container[str] | None = None,
    ) -> None:
        self.rows = {row.id: row for row in rows}
        self.outcomes, self.setting, self.reader = outcomes, setting, reader
        self.starts = {row_id: base for row_id, base in starts.items() if self.rows[row_id].control is None}
        self.usual = self.starts if usual is None else usual
        self.planned, self.seen = planned or {}, self.rows if seen is None else seen
        self.claims = self._claims(stated)
        floor = partial(noise_floor.of_family, reader.ledger, self.rows)
        self._of_metric = cache(lambda metric: Effects(rows, outcomes, reader, metric, floor))
        self._effect = cache(self._between)

    @cached_property
    def judgements(self) -> list[Judgement]:
        """Returns the judgement of each claim on its own metric, then on the nll of the references, if both rows have it."""
        own_nll = {(claim.row, claim.against) for claim in self.claims if claim.metric == NLL}
        asked = [each for claim in self.claims for each in self._asked(claim, (claim.row, claim.against) not in own_nll)]
        found = [self._effects_of(claim, expected.sign) for claim, _, expected in asked]
        raw = [
            p_of([effect.difference for effect in effects], [effect.delta for effect in effects], expected.sign)
            for effects, (_, _, expected) in zip(found, asked, strict=True)
        ]
        names = [self._test(claim, effects, expected) for effects, (claim, _, expected) in zip(found, asked, strict=True)]
        tests = {name: p for name, p in zip(names, raw, strict=True) if p is not None}  # a claim on the same runs counts once
        adjusted = dict(zip(tests, holm(list(tests.values())), strict=True))
        looks, states = Looks(self.reader.ledger), dict[tuple[str, str | None], State]()
        made = []
        for (claim, stated, expected), effects, p, name in zip(asked, found, raw, names, strict=True):
            p_adjusted, look, level = adjusted.get(name), 1, level_of(1, self.planned.get(claim.row))
            if p is not None:
                pair = claim.row, claim.against
                state = states[pair] if pair in states else states.setdefault(pair, self._state(claim, effects))
                look = looks.number(state)
                level = level_of(look, looks.planned(state, self.planned))
            unmet = self._unmet(claim, effects)
            doubt = self._doubt(claim, expected.sign, [*effects, *(effect for effect in unmet.values() if effect is not None)])
            verdict = self._verdict(claim, expected, effects, doubt, p_adjusted, level)
            if doubt:
                p = p_adjusted = None
            if stated or effects:
                chrf = self._effect(CHRF, claim.row, effects[0].against) if effects and claim.metric == BLEU else None
                one = Judgement(claim, stated, expected.claimed, verdict, p=p_adjusted, raw=p, look=look, level=level, setting=self.setting)
                own = claim.against == self.starts.get(claim.row, "") and claim.metric in (main_metric(self.rows[claim.row]), NLL)
                at = tuple(effect.at(level) for effect in effects)
                made.append(replace(one, effects=at, chrf=chrf and chrf.at(level), family=max(len(tests), 1), own=own, unmet=tuple(unmet)))
        self._record(looks, [one for one in made if one.claim.row in self.seen], states)
        return made

    def of_claims(self) -> list[Judgement]:
        """Returns the judgements of the claims of the paper and the file, on each metric."""
        return [made for made in self.judgements if made.claim.source != "row"]

    def of_rows(self) -> dict[str, OfRow]:
        """Returns the judgement of each row against the row with which it is compared, for rows with a difference and failed rows."""
        found: dict[str, OfRow] = {}
        for made in self.judgements:
            row = made.claim.row
            if not made.own or (not made.effects and failure_verdict(self.rows[row], self.outcomes.get(row, ())) is None):
                continue
            if made.metric == main_metric(self.rows[row]):
                found.setdefault(row, OfRow()).own = made
            elif made.effects:
                found.setdefault(row, OfRow()).nll = made
        return found

    def _claims(self, stated: Sequence[RowClaim]) -> list[RowClaim]:
        """Returns the stated claims whose rows are present, the paper's claims on other comparisons, and the rows without a claim."""

        def complete(claim: RowClaim) -> RowClaim:
            against, metric = claim.against or self.usual.get(claim.row), claim.metric or main_metric(self.rows[claim.row])
            return replace(claim, against=against, metric=metric)

        own = [complete(c) for c in stated if c.row in self.rows and (c.against is None or c.against in self.rows)]
        said = {(c.row, c.against, c.metric) for c in own}
        reported = [complete(c) for c in reported_claims(list(self.rows.values()), self.usual)]
        own += [c for c in reported if (c.row, c.against, c.metric) not in said]
        said = {(c.row, c.against, c.metric) for c in own}
        rest = [RowClaim(row, base, None, main_metric(self.rows[row]), source="row") for row, base in self.starts.items()]
        return own + [c for c in rest if (c.row, c.against, c.metric) not in said]

    def _asked(self, claim: RowClaim, with_nll: bool) -> Iterator[tuple[RowClaim, bool, Expectation]]:
        """Yields (claim, whether it is about the metric, expectation) for the claim's metric and the nll, where it predicts the sign."""
        metric = str(claim.metric)
        better = -1.0 if metric in LOWER_IS_BETTER else 1.0
        margin = MARGINS.get(metric) if claim.margin is None else claim.margin
        effect = _claimed_effect(claim)
        sign = math.copysign(1.0, effect) if effect else better
        yield claim, True, Expectation(sign, effect, effect is not None, margin)
        if with_nll and effect != 0:
            yield replace(claim, metric=NLL, effect=None, margin=None), False, Expectation(-sign * better, None, effect is not None)

    def _controls(self, claim: RowClaim) -> list[str]:
        """Returns addresses of the rows to beat: the row that the claim names, and if that is the usual row, the row's controls."""
        if claim.against is None or claim.against != self.usual.get(claim.row) or _claimed_effect(claim) == 0:
            return [] if claim.against is None else [claim.against]
        matched = [row.id for row in self.rows.values() if row.control is not None and row.control.against == claim.row]
        return list(dict.fromkeys([claim.against, *self.rows[claim.row].control_rows, *matched]))

    def _effects_of(self, claim: RowClaim, sign: float) -> tuple[Effect, ...]:
        """Returns the differences to the controls, the strongest first. Controls with the same runs count once, controls with one seed not.

        If the row that the claim names has fewer than two seeds, no other control replaces it.
        """
        metric, runs = str(claim.metric), dict[frozenset[str], Effect]()
        base = None if claim.against is None else self._effect(metric, claim.row, claim.against)
        if base is None or base.difference is None:
            return () if base is None else (base,)
        for name in self._controls(claim):
            found = self._effect(metric, claim.row, name)
            if found is not None and found.difference is not None:
                runs.setdefault(self._of_metric(metric).runs[name], found)
        return tuple(sorted(runs.values(), key=lambda effect: sign * effect.delta))

    def _unmet(self, claim: RowClaim, effects: Sequence[Effect]) -> dict[str, Effect | None]:
        """Returns control and reason -> its difference with one seed or None, for controls of a judged row that are not judged."""
        if not effects or effects[0].difference is None:
            return {}
        found, runs = dict[str, Effect | None](), self._of_metric(str(claim.metric)).runs
        judged = {runs[claim.row], *(runs[effect.against] for effect in effects)}  # a control may be the row's own run
        for name in (name for name in self._controls(claim) if name in self.rows and runs.get(name) not in judged):
            effect, done = self._effect(str(claim.metric), claim.row, name), any(o.status == "done" for o in self.outcomes.get(name, ()))
            why = ONE_SEED if effect is not None else "not scored alike" if done else "no finished run"
            found[f"{short_id(name)} ({why})"] = effect
        return found

    def _doubt(self, claim: RowClaim, sign: float, rivals: Sequence[Effect]) -> str:
        """Returns why p does not count; empty if it counts. rivals: the differences to all controls with a finished seed."""
        for name in (claim.row, *(effect.against for effect in rivals)) if rivals else ():
            if any(o.stated or o.status == "diverged" for o in self.outcomes.get(name, ())):
                return f"seeds of {name} failed; a mean over the others would leave them out"
        ahead = [effect.against for effect in rivals[1:] if effect.difference is None and sign * effect.delta < 0 < sign * rivals[0].delta]
        return f"{short_id(ahead[0])} is ahead with one seed" if ahead else ""

    def _between(self, metric: str, row: str, against: str) -> Effect | None:
        """Returns the effect of a row against another one. Between tuned rows it has the additional variance of their choices."""
        effect = self._of_metric(metric).between(row, against)
        if effect is None or effect.difference is None or not any(trials := [self.rows[name].trials for name in (row, against)]):
            return effect
        fixed = (Trial(0.0, {effect.metric: 0.0}),) * max(map(len, trials))  # a row that was not searched has no choice
        trials = [own or fixed for own in trials]
        scores = [[trial.scores.get(effect.metric, math.nan) for trial in own] for own in trials]
        variance = choice_variance([[trial.loss for trial in own] for own in trials], scores)
        return replace(effect, difference=effect.difference.with_choice(*variance))

    def _test(self, claim: RowClaim, effects: Sequence[Effect], expected: Expectation) -> Any:
        runs = self._of_metric(str(claim.metric)).runs
        return runs.get(claim.row), frozenset(runs[effect.against] for effect in effects), claim.metric, expected.sign

    def _verdict(
        self, claim: RowClaim, expected: Expectation, effects: Sequence[Effect], doubt: str, p: float | None, level: float
    ) -> Verdict:
        gain = expected.claimed and (expected.sign > 0) == (claim.metric not in LOWER_IS_BETTER)
        failed = failure_verdict(self.rows[claim.row], self.outcomes.get(claim.row, ()), gain)
        if failed is not None or doubt:
            return failed or Verdict(OPEN, doubt)
        if not effects:
            if claim.against is None:
                return Verdict(NOT_COMPARED, "the table compares this row with none; expected `against` in the claim")
            names = (claim.row, claim.against)
            lacking = [name for name in names if not any(o.status == "done" or o.stated for o in self.outcomes.get(name, ()))]
            if lacking:
                return Verdict(NOT_RUN, f"no finished run of {' and '.join(lacking)}")
            return Verdict(NOT_COMPARED, "the same run, scored in another way, failed, or no sentence statistics (no nll of translations)")
        digits = DIGITS.get(str(claim.metric), 2)
        found = judge(expected, effects[0].difference, p, controls=len(effects), level=level, digits=digits)
        fewest = min(min(effect.seeds) for effect in effects)
        if found.word != ONE_SEED and claim.source == "file" and fewest < claim.seeds:
            needed = claim.seeds if found.word in DECIDED else found.seeds
            return Verdict(OPEN, f"{fewest} of the claim's {claim.seeds} seeds are done", needed)
        return found

    def _state(self, claim: RowClaim, effects: Sequence[Effect]) -> State:
        names = [claim.row, *(effect.against for effect in effects)]
        done = {name: [o for o in self.outcomes.get(name, ()) if o.status == "done"] for name in names}
        seeds = {name: [o.seed for o in found] for name, found in done.items() if found}
        runs = {name: digest(sorted(str(o.keys.score) for o in done[name]))[:16] for name in seeds}
        both = [self.rows[name].spec for name in (claim.row, claim.against) if name in self.rows]
        specs = [recorded(spec) for spec in both if spec is not None]
        return State(digest([claim.row, claim.against, *specs])[:16], claim.row, str(claim.against), seeds, runs)

    def _record(self, looks: Looks, made: Sequence[Judgement], states: Mapping[tuple[str, str | None], State]) -> None:
        judged: dict[tuple[str, str | None], dict[str, Any]] = {}
        for one in made:
            if one.p is not None:
                about = {"delta": round(one.effects[0].delta, 6), "p": round(one.p, 8), "level": one.level, "word": one.verdict.word}
                judged.setdefault((one.claim.row, one.claim.against), {})[one.metric] = about
        for pair, found in judged.items():
            looks.add(states[pair], found, looks.planned(states[pair], self.planned))
        looks.save()


def _claimed_effect(claim: RowClaim) -> float | None:
    """Returns the effect by which a claim is judged: a difference under 0.05 that a paper prints claims none."""
    is_small = claim.source == "paper" and claim.effect is not None and abs(claim.effect) < 0.05
    return 0.0 if is_small else claim.effect


def reported_claims(rows: Sequence[Row], starts: Mapping[str, str]) -> list[RowClaim]:
    """Returns a claim per row of kind run whose difference to its comparison row the paper reports, or that failed in the paper."""
    by_id = {row.id: row for row in rows}
    found = []
    for row in rows:
        effect = claimed(row, by_id.get(starts.get(row.id, "")))
        if row.spec is not None and row.control is None and row.id in starts and (effect is not None or row.expect.get("bleu") == FAILED):
            found.append(RowClaim(row.id, starts[row.id], effect or 0.0, source="paper"))
    return found
