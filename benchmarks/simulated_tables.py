"""Error rates, coverage and power of the estimator on tables of simulated scores with known spreads, without sentences."""

import math
from collections.abc import Callable, Sequence

import numpy as np

from orchestrator.report.looks import level_of
from orchestrator.scoring.significance.estimator import LEVEL, Difference, answer, holm
from orchestrator.scoring.significance.mixed import MixedModel
from orchestrator.scoring.significance.verdicts import p_of

SPREADS: dict[str, Callable[[np.random.Generator], np.ndarray]] = {
    "equal": lambda _: np.ones(12),
    "lognormal": lambda generator: np.exp(0.4 * generator.normal(size=12)),
    "baseline twice": lambda _: np.array([2.0, *[1.0] * 11]),
    "row 1 twice": lambda _: np.array([1.0, 2.0, *[1.0] * 10]),
}
"""Title -> standard deviation of each row [12]. lognormal: 0.4 is the standard deviation of the logarithm."""
CORRELATIONS = (0.0, 0.4)
"""Of two rows over their shared seeds."""
SEEDS = {"2": [2] * 12, "3": [3] * 12, "5": [5] * 12, "3, four rows 6": [3] * 8 + [6] * 4}
PLANTED = 3.0
"""Effect for the power, in standard errors where spreads are equal."""


def simulated(tables: int) -> str:
    """A Markdown table of error rates and power in per cent, a line for each kind of spread and correlation."""
    lines, largest, family = list[str](), 0.0, 0.0
    for title, spread in SPREADS.items():
        for correlation in CORRELATIONS:
            found = []
            for seeds in SEEDS.values():
                generator, rates = np.random.default_rng(2 + len(SEEDS) * len(lines) + len(found)), np.zeros((tables, 4))
                effect = PLANTED * math.sqrt(2 / float(np.mean(seeds)) * (1 - correlation))
                for i in range(tables):
                    sd = spread(generator)
                    noise = math.sqrt(correlation) * generator.normal(size=max(seeds))
                    noise = noise + math.sqrt(1 - correlation) * generator.normal(size=(len(seeds), max(seeds)))
                    table = [dict(enumerate(sd[row] * noise[row, :k])) for row, k in enumerate(seeds)]
                    model = MixedModel(dict(enumerate(table)))
                    p, planted = np.array(
                        [[compared(model, row, 0, each).same_sentences.p for each in (0.0, effect)] for row in range(1, len(seeds))]
                    ).T
                    rates[i] = np.mean(p < LEVEL), p[0] < LEVEL, min(holm(list(p))) < LEVEL, np.mean(planted < LEVEL)
                largest = max(largest, float(rates.std(axis=0, ddof=1).max()) / math.sqrt(tables))
                found.append(rates.mean(axis=0))
            cells = [f"{100 * every:.1f} ({100 * first:.1f}); {100 * power:.1f}" for every, first, _, power in found]
            lines.append(_line([f"{title}, {correlation:g}", *cells]))
            family = max(family, *(any_ for _, _, any_, _ in found))
    made = ["significant at 5 % of all rows (of row 1); power", "", _line(["spread, correlation", *SEEDS]), "|---" * (1 + len(SEEDS)) + "|"]
    made += [*lines, "", f"tables with any significant difference after Holm: at most {family:.1%}"]
    return "\n".join([*made, f"{tables:,} tables a cell; Monte-Carlo standard errors of at most {100 * largest:.1f} points"])


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def looked(tables: int) -> str:
    """A Markdown table of looks at rows without a difference: first all rows, then those that are open, with more seeds.

    Without a plan the looks have levels of `level_of`; a plan gives both Pocock's. Coverage: of the intervals at the last look.
    """
    lines = [
        "| looks | seeds | significant at any look | coverage at the last look | coverage, rows with two looks |",
        "|---|---|---|---|---|",
    ]
    for title, planned in (("planned", 2), ("not planned", None)):
        for seeds in ((3, 6), (2, 5), (3, 4)):
            generator, hits, covered, more = np.random.default_rng(len(lines)), 0, 0, [0, 0]
            for _ in range(tables):
                scores = generator.normal(size=(12, max(seeds)))
                left = set(range(1, 12))
                for look, k in enumerate(seeds, 1):
                    level, last = level_of(look, planned), look == len(seeds)
                    cut = {row: dict(enumerate(scores[row, :k])) for row in range(12)}
                    model = MixedModel(cut)
                    for row in sorted(left):
                        test = compared(model, row, 0).at(level).same_sentences
                        if test.p < level or last:
                            hits, covered = hits + (test.p < level), covered + (test.low <= 0 <= test.high)
                            more[0], more[1] = more[0] + (look > 1), more[1] + (look > 1 and test.low <= 0 <= test.high)
                            left.discard(row)
            total = 11 * tables
            rates = (hits / total, covered / total, more[1] / more[0])
            lines.append(f"| {title} | {seeds[0]}, then {seeds[1]} | " + " | ".join(f"{rate:.1%}" for rate in rates) + " |")
    return "\n".join(lines)


def controlled(tables: int) -> str:
    """A Markdown table of families: eleven rows without a difference, each against the baseline and two controls, on two metrics.

    The metrics of a run correlate by 0.5. A row is called better if it beats all three, and worse by Bonferroni (`p_of`).
    """
    lines = ["| seeds a row | claims significant at 5 % | tables with any after Holm | power |", "|---|---|---|---|"]
    for k in (2, 3, 5):
        generator, total = np.random.default_rng(k), np.zeros(3)
        for _ in range(tables):
            common = generator.normal(size=(34, k))
            p, planted = [], []
            for _metric in range(2):
                scores = math.sqrt(0.5) * (common + generator.normal(size=(34, k)))
                model = MixedModel({row: dict(enumerate(scores[row])) for row in range(34)})
                for row in range(11):
                    for effect, found in ((0.0, p), (PLANTED * math.sqrt(2 / k), planted)):
                        found.append(_against_all(model, row, (11 + row, 22 + row, 33), effect))
            total += [np.mean(np.array(p) < LEVEL), min(holm(p)) < LEVEL, np.mean(np.array(planted) < LEVEL)]
        lines.append(f"| {k} | " + " | ".join(f"{each / tables:.1%}" for each in total) + " |")
    return "\n".join(lines)


def compared(model: MixedModel[int], row: int, other: int, effect: float = 0.0) -> Difference:
    """A row of a simulated table against another one. effect: added to its mean."""
    spread, rows = model.between(row, other), [list(model.rows[name].values()) for name in (row, other)]
    assert spread is not None
    delta = float(np.mean(rows[0]) - np.mean(rows[1])) + effect
    variance = spread.variance * (1 / len(rows[0]) + 1 / len(rows[1]))
    test = answer(delta, variance, spread.df)
    return Difference(delta, spread, 0.0, test, test)


def _against_all(model: MixedModel[int], row: int, controls: tuple[int, ...], effect: float) -> float:
    found = [compared(model, row, control, effect) for control in controls]
    p = p_of(found, [each.delta for each in found], 1.0)
    assert p is not None
    return p
