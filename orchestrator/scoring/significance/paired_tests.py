"""Two paired significance tests of a difference in BLEU between two systems on the same test set, and the marks that they give.

Both account for the choice of sentences with the weights fixed; neither accounts for the variation over training seeds. A table's file or
a row names its paper's test (`significance: bootstrap`); without one, both tests must agree.
"""

from dataclasses import dataclass

import numpy as np

from orchestrator.ledger.statistics import corpus_bleu
from orchestrator.scoring.significance.sentence_statistics import Counts
from orchestrator.specs.schema import ScoreSpec
from orchestrator.specs.table import TestName

SAMPLES, SEED = 1000, 12345
"""Number of bootstrap resamples and the seed of their draw (sacreBLEU's defaults)."""


@dataclass(frozen=True)
class Comparison:
    """BLEU of a system and a baseline on the same sentences, in percent, and both tests of the difference.

    low, high: 95 % interval of the difference (percentiles over the resamples); wins: share of resamples where the system is better;
    better, worse, ties: numbers of sentences whose exchange raises, lowers or does not change the baseline's BLEU. The p are two-sided.
    """

    bleu: float
    baseline_bleu: float
    delta: float
    low: float
    high: float
    wins: float
    p_bootstrap: float
    p_sign: float
    better: int
    worse: int
    ties: int

    def p(self, test: TestName = "both") -> float:
        """p-value of one test, or the larger of both. It is 1 for a sign test that points against the difference."""
        sign = self.p_sign if (self.better - self.worse) * self.delta > 0 else 1.0
        return {"sign": sign, "bootstrap": self.p_bootstrap, "both": max(sign, self.p_bootstrap)}[test]

    def mark(self, test: TestName) -> str:
        """The mark of the lowest level that the p-value passes; empty if it passes none."""
        marks = [better if self.delta > 0 else worse for level, better, worse in LEVELS[test] if self.p(test) < level]
        return marks[-1] if marks else ""


_DAGGERS = ((0.05, "*", "*"), (0.01, "†", "†"))
LEVELS: dict[TestName, tuple[tuple[float, str, str], ...]] = {
    "both": _DAGGERS,
    "sign": _DAGGERS,
    "bootstrap": ((0.05, "↑", "↓"), (0.01, "⇑", "⇓")),
}
"""Test -> levels, highest p first: (p, mark of a better row, mark of a worse one). Dou 2018 marks † by the sign test, Hao 2019 marks arrows
by the bootstrap; the level of each arrow is assumed."""


def in_words(test: TestName) -> str:
    """`† p < 0.01, * p < 0.05: two-sided sign test (..)`."""
    levels = [f"{better} p < {p:g}" + (f" ({worse} where worse)" if worse != better else "") for p, better, worse in reversed(LEVELS[test])]
    tests = {"sign": "sign test (Collins et al. 2005)", "bootstrap": f"paired bootstrap (Koehn 2004, {SAMPLES:,} resamples)"}
    what = f"in both tests, two-sided: {' and '.join(tests.values())}" if test == "both" else f"two-sided {tests[test]}"
    return f"{', '.join(levels)}: {what}"


def compare(system: Counts, baseline: Counts, spec: ScoreSpec, samples: int = SAMPLES) -> Comparison:
    """Runs both tests on the statistics [N, 10] of the same N sentences. Raises ValueError if their numbers differ or are 0."""
    if system.shape != baseline.shape or not len(system):
        raise ValueError(f"statistics of {len(system)} and {len(baseline)} sentences; expected the same sentences, at least one")
    ours, theirs = float(corpus_bleu(system.sum(axis=0), spec)), float(corpus_bleu(baseline.sum(axis=0), spec))
    resampled = _bootstrap(system, baseline, spec, samples, abs(ours - theirs))
    return Comparison(ours, theirs, ours - theirs, *resampled, *_sign_test(system, baseline, spec))


def _sign_test(system: Counts, baseline: Counts, spec: ScoreSpec) -> tuple[float, int, int, int]:
    """Returns (p, better, worse, ties) of an exact binomial test of equal chances; p is 1 without any trial.

    One sentence at a time of the baseline's output is replaced by the system's, and corpus BLEU rises or falls (Collins, Koehn and Kučerová
    2005, Clause Restructuring for Statistical Machine Translation, section 5.1). Ties are left out.
    """
    total = baseline.sum(axis=0)
    before, after = corpus_bleu(total, spec), corpus_bleu(total - baseline + system, spec)
    better, worse = int((after > before).sum()), int((after < before).sum())
    from scipy.stats import binomtest  # takes seconds to import, and most tables need no test

    p = float(binomtest(better, better + worse).pvalue) if better + worse else 1.0
    return p, better, worse, len(system) - better - worse


def _bootstrap(system: Counts, baseline: Counts, spec: ScoreSpec, samples: int, observed: float) -> tuple[float, float, float, float]:
    """Returns (low, high, wins, p). The test set is resampled `samples` times with replacement, identically for both systems (Koehn 2004).

    p is computed as in sacreBLEU (after Moses and multeval): (resamples whose |difference| exceeds its mean by more than the observed
    one, + 1) / (samples + 1). For an observed difference of 0, which would give the lowest p, it is 1.
    """
    n = len(system)
    draws = np.random.default_rng(SEED).choice(n, size=(samples, n), replace=True)
    times = np.stack([np.bincount(draw, minlength=n) for draw in draws]).astype(np.float64)  # [samples, N]: multiplicities
    scores = [corpus_bleu(times @ statistics.astype(np.float64), spec) for statistics in (system, baseline)]
    deltas = scores[0] - scores[1]
    apart = np.abs(deltas)
    p = (int((apart - apart.mean() > observed).sum()) + 1) / (samples + 1) if observed > 0 else 1.0
    low, high = (float(q) for q in np.percentile(deltas, [2.5, 97.5]))
    return low, high, float((deltas > 0).mean()), p
