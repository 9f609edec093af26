"""The judgement of a claim on one metric: its evidence, as text, as data and as an exit code."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.report.effects import DIGITS, Effect
from orchestrator.scoring.significance.estimator import LEVEL
from orchestrator.scoring.significance.sentence_statistics import LOWER_IS_BETTER
from orchestrator.scoring.significance.verdicts import AGAINST, DECIDED, OPEN, Verdict
from orchestrator.specs.claims import RowClaim
from orchestrator.specs.row import short_id

NOT_RUN, NOT_COMPARED = "not run", "not compared"


@dataclass(frozen=True)
class Judgement:
    """A claim on one metric with the evidence of our runs.

    claim: the claim with the addresses of its rows. Its effect is None if it predicts at most the sign on this metric.
    stated: False: the claim is about another metric and predicts only the sign here. claimed: whether an effect is claimed.
    effects: the difference to each control at `level`, the strongest first; empty without results.
    p: p-value of the claim, adjusted for the `family` claims of the table (Holm). raw: before adjustment. None with one seed, and if
        failed seeds or a control forbid a verdict.
    unmet: controls with which the row was not compared, each with the reason.
    look: number of times that the claim was judged with new seeds. level: significance level of this look.
    chrf: for a claim on BLEU, the difference in chrF to the strongest control. Verdicts ignore it.
    setting: how our setting differs from the paper's.
    own: whether it compares a row with its usual comparison row, on the row's own metric or its nll.
    """

    claim: RowClaim
    stated: bool
    claimed: bool
    verdict: Verdict
    effects: tuple[Effect, ...] = ()
    p: float | None = None
    raw: float | None = None
    family: int = 1
    look: int = 1
    level: float = LEVEL
    chrf: Effect | None = None
    setting: str = ""
    own: bool = False
    unmet: tuple[str, ...] = ()

    @property
    def metric(self) -> str:
        return str(self.claim.metric)

    @property
    def effect(self) -> Effect | None:
        """Returns the difference to the strongest control."""
        return self.effects[0] if self.effects else None

    @property
    def significant_gain(self) -> bool | None:
        """Returns whether the difference is significant and for the better; None without p."""
        return None if self.p is None else self.p < self.level and (self.effects[0].delta > 0) == (self.metric not in LOWER_IS_BETTER)

    @property
    def claimed_effect(self) -> str:
        """Returns the claimed difference, `+0.80`; empty without one."""
        return "" if self.claim.effect is None else f"{self.claim.effect:+.{DIGITS.get(self.metric, 2)}f}"

    @property
    def said(self) -> str:
        """`confirmed`, `open: 0.84 is detectable with 80 % power; 5 seeds would detect +0.45`."""
        return self.verdict.word + (f": {self.verdict.reason}" if self.verdict.word == OPEN and self.claim.effect is not None else "")

    @property
    def plain(self) -> str:
        """Returns the difference and its verdict: `+0.10 (-0.20 to +0.40), open`."""
        return ", ".join([*([] if self.effect is None else [self.effect.interval]), self.verdict.word])

    def as_json(self) -> dict[str, Any]:
        """Returns plain data. effect: the difference to the strongest control; controls: the differences to the other controls."""
        claim, verdict, effects = self.claim, self.verdict, [effect.as_json() for effect in self.effects]
        found: dict[str, Any] = {"row": claim.row, "against": claim.against, "metric": claim.metric, "source": claim.source}
        found |= {"stated": self.stated} | ({} if claim.margin is None else {"margin": claim.margin})
        found |= {"claim": claim.effect, "verdict": verdict.word, "reason": verdict.reason, "seeds_needed": verdict.seeds}
        found |= {"p": self.p, "p_raw": self.raw, "family": self.family, "look": self.look, "level": self.level}
        found |= {"setting": self.setting if self.claimed else "", "effect": effects[0] if effects else None, "controls": effects[1:]}
        found |= {"not_compared": list(self.unmet)} if self.unmet else {}
        return found | {"chrf": None if self.chrf is None else self.chrf.as_json()}

    def of_row(self) -> dict[str, Any]:
        """Returns the entries of a table's row: {"verdict", "controls", "chrf_delta", "effect", "significant"}."""
        record, said = self.as_json(), ("reason", "seeds_needed", "claim", "p", "family", "look", "level")
        verdict = {"word": record["verdict"]} | {name: record[name] for name in said}
        found = {"verdict": verdict | ({"setting": record["setting"]} if record["setting"] else {}), "controls": record["controls"]}
        found |= {} if self.chrf is None else {"chrf_delta": record["chrf"]}
        found |= {"effect": record["effect"]} if self.effects else {}
        return found | ({} if self.significant_gain is None else {"significant": self.significant_gain})


@dataclass
class OfRow:
    """The comparison of a row with its comparison row: on its own metric, and on the nll of the references."""

    own: Judgement | None = None
    nll: Judgement | None = None

    @property
    def effect(self) -> Effect | None:
        return None if self.own is None else self.own.effect

    def as_json(self) -> dict[str, Any]:
        found = ({} if self.own is None else self.own.of_row()) | ({} if self.nll is None else {"nll": self.nll.of_row()})
        return found | ({} if self.effect is None else {"delta": self.effect.delta, "against": short_id(self.effect.against)})


def exit_code(judged: Sequence[Judgement]) -> int:
    """Returns the exit code for the stated claims. 0: all confirmed, higher or lower; 6: some reversed or no such effect; 7: some open."""
    words = {one.verdict.word for one in judged if one.stated}
    if words & set(AGAINST):
        return 6
    return 7 if words - set(DECIDED) else 0
