"""Rules for significance marks: the test that decides and the p-values below which a difference is marked.

A table's file or a row names its paper's test (`significance: bootstrap`); without one, both tests must agree.
"""

from dataclasses import dataclass

from orchestrator.scoring.significance.paired_tests import Comparison
from orchestrator.specs.table import TestName


@dataclass(frozen=True)
class Level:
    """Below `p` a row gets the mark `better`, or `worse` if it is behind its baseline."""

    p: float
    better: str
    worse: str


@dataclass(frozen=True)
class Rule:
    """The deciding test and its levels, highest p first."""

    test: TestName
    levels: tuple[Level, ...]

    def mark(self, comparison: Comparison) -> str:
        """The mark of a comparison; empty if it passes no level."""
        marks = [level.better if comparison.delta > 0 else level.worse for level in self.levels if comparison.p(self.test) < level.p]
        return marks[-1] if marks else ""

    def words(self) -> str:
        """The levels as text: `† p < 0.01, * p < 0.05`."""
        return ", ".join(
            f"{level.better} p < {level.p:g}" + (f" ({level.worse} where worse)" if level.worse != level.better else "")
            for level in reversed(self.levels)
        )


_DAGGERS = (Level(0.05, "*", "*"), Level(0.01, "†", "†"))
_ARROWS = (Level(0.05, "↑", "↓"), Level(0.01, "⇑", "⇓"))
RULES: dict[str, Rule] = {"both": Rule("both", _DAGGERS), "sign": Rule("sign", _DAGGERS), "bootstrap": Rule("bootstrap", _ARROWS)}
"""Dou 2018 marks † by the sign test, Hao 2019 marks arrows by the bootstrap; the level of each arrow is assumed."""


def tests_in_words(test: TestName, samples: int) -> str:
    sign = "sign test (Collins et al. 2005)"
    bootstrap = f"paired bootstrap (Koehn 2004, {samples:,} resamples)"
    return {
        "both": f"in both tests, two-sided: {sign} and {bootstrap}",
        "sign": f"two-sided {sign}",
        "bootstrap": f"two-sided {bootstrap}",
    }[test]
