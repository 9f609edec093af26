"""When a difference is called significant, and the mark it gets: by which test, below which p-values.

A table's file, or a row, names its paper's test (`significance: bootstrap`); without a name both tests must agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from orchestrator.scoring.significance.paired_tests import Comparison, Test


@dataclass(frozen=True)
class Level:
    """p below which a row gets `better`, or `worse` where it is behind its baseline."""

    p: float
    better: str
    worse: str


@dataclass(frozen=True)
class Rule:
    """`levels`: the loosest first."""

    test: Test
    levels: tuple[Level, ...]

    def mark(self, comparisons: Sequence[Comparison]) -> str:
        """Of the weakest of them; nothing where they do not all point to one side."""
        sides = {comparison.delta > 0 for comparison in comparisons}
        if len(sides) != 1:
            return ""
        p = max(comparison.p(self.test) for comparison in comparisons)
        passed = [level for level in self.levels if p < level.p]
        return "" if not passed else passed[-1].better if sides == {True} else passed[-1].worse

    def at(self, levels: Sequence[float]) -> Rule:
        """With other thresholds, the loosest first, one for each mark at most. ValueError for anything else."""
        falling = all(0 < level < 1 for level in levels) and all(a > b for a, b in pairwise(levels))
        if not falling or not 0 < len(levels) <= len(self.levels):
            raise ValueError(f"expected at most {len(self.levels)} falling numbers between 0 and 1")
        return replace(self, levels=tuple(replace(old, p=p) for old, p in zip(self.levels, levels, strict=False)))

    def words(self) -> str:
        """`† p < 0.01, * p < 0.05`."""
        return ", ".join(
            f"{level.better} p < {level.p:g}" + (f" ({level.worse} where worse)" if level.worse != level.better else "")
            for level in reversed(self.levels)
        )


_DAGGERS = (Level(0.05, "*", "*"), Level(0.01, "†", "†"))
_ARROWS = (Level(0.05, "↑", "↓"), Level(0.01, "⇑", "⇓"))
RULES: dict[str, Rule] = {"both": Rule("both", _DAGGERS), "sign": Rule("sign", _DAGGERS), "bootstrap": Rule("bootstrap", _ARROWS)}
"""The papers: Dou 2018 † by the sign test. Hao 2019 by the bootstrap, with arrows; which arrow stands for which level is assumed."""


def rule_of(name: str | None) -> Rule:
    """Of what a row's file says."""
    return RULES[name or "both"]


def tests_in_words(test: Test, samples: int) -> str:
    """What a note says of the test that decides."""
    sign = "sign test (Collins et al. 2005)"
    bootstrap = f"paired bootstrap (Koehn 2004, {samples:,} resamples)"
    return {
        "both": f"in both tests, two-sided: {sign} and {bootstrap}",
        "sign": f"two-sided {sign}",
        "bootstrap": f"two-sided {bootstrap}",
    }[test]
