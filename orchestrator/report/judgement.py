"""A claim on one metric, judged: what it was judged by, as data and as an exit code."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.report.effects import Effect
from orchestrator.scoring.significance.estimator import LEVEL
from orchestrator.scoring.significance.verdicts import AGAINST, DECIDED, Verdict, former
from orchestrator.specs.claims import RowClaim

NOT_RUN, NOT_COMPARED = "not run", "not compared"


@dataclass(frozen=True)
class Judgement:
    """A claim on one metric, and what our runs say of it.

    Args:
        claim: with the addresses of its rows; its effect is None where nothing is claimed of this metric but, perhaps, the sign.
        stated: whether the claim is about this metric; False: about another one, of which this one shows the sign.
        claimed: whether somebody claims an effect.
        effects: the difference to each control, the strongest first; empty without results.
        chrf: the difference in chrF to the strongest control, which no verdict counts; of a claim on BLEU.
        p: of the claim, adjusted for the `family` claims of the table (Holm); raw: before; None with one seed.
        look: how many times the claim was judged with new seeds; level: of significance, of this look.
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

    @property
    def metric(self) -> str:
        return str(self.claim.metric)

    @property
    def significant(self) -> bool:
        return self.p is not None and self.p < self.level

    def as_json(self, setting: str = "") -> dict[str, Any]:
        """{"claim", "verdict", "former", "reason", "seeds_needed", "p", "p_raw", "family", "look", "level", "effect", "controls", "chrf"}.

        effect: the difference to the strongest control; controls: those to the others; former: the earlier word.
        """
        effects = [effect.as_json(self.level) for effect in self.effects]
        return {
            "claim": self.claim.effect,
            "verdict": self.verdict.word,
            "former": former(self.verdict.word, self.claimed),
            "reason": self.verdict.reason,
            "seeds_needed": self.verdict.seeds,
            "p": self.p,
            "p_raw": self.raw,
            "family": self.family,
            "look": self.look,
            "level": self.level,
            "setting": setting if self.claimed else "",
            "effect": effects[0] if effects else None,
            "controls": effects[1:],
            "chrf": None if self.chrf is None else self.chrf.as_json(self.level),
        }


def verdict_of(record: Mapping[str, Any]) -> dict[str, Any]:
    """{"word", "reason", ..} of a record."""
    found = {"word": record["verdict"], **{name: record[name] for name in _SAID}}
    return found | ({"setting": record["setting"]} if record["setting"] else {})


_SAID = ("former", "reason", "seeds_needed", "claim", "p", "family", "look", "level")


def exit_code(records: Sequence[Mapping[str, Any]]) -> int:
    """Of the stated claims: 0: all confirmed, higher or lower; 6: some reversed, or without such an effect; 7: else, if some are open."""
    words = {record["verdict"] for record in records if record["stated"]}
    if words & set(AGAINST):
        return 6
    return 7 if words - set(DECIDED) else 0
