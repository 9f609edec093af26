"""Verdicts on claims: does a difference that a paper reports, or a user expects, hold for our runs?

    confirmed            significant, of the claim's sign; the claimed size lies in our interval
    confirmed, smaller   significant, of the claim's sign; the claimed size lies beyond our interval
    confirmed, larger    significant, of the claim's sign; the claimed size lies before our interval
    no such effect       the one-sided bound of the effect is under half the claim and under the margin
    reversed             significant with the other sign
    open                 none of these: the data do not decide
    one seed             an arm has one seed; there is no verdict

Without a claim a significant difference is higher or lower. A claim about one metric predicts only the sign of the effect on another
metric. A claim of no effect is confirmed if the interval of confidence 1 - 2 level lies within its margin. It is reversed if the effect is
significant, and its interval of confidence 1 - level lies beyond the margin.

A row has to beat each of its controls. If it is better than all, the largest p counts (intersection-union test, Berger 1982). If it is
worse than the strongest control, the p of this comparison is multiplied by the number of controls (Bonferroni), for it was chosen.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from orchestrator.scoring.significance.estimator import LEVEL, MOST_SEEDS, Difference, quantile, seeds_needed

CONFIRMED, SMALLER, LARGER = "confirmed", "confirmed, smaller", "confirmed, larger"
NO_EFFECT, REVERSED, OPEN, ONE_SEED = "no such effect", "reversed", "open", "one seed"
HIGHER, LOWER = "higher", "lower"
AGAINST = (NO_EFFECT, REVERSED)
DECIDED = (CONFIRMED, SMALLER, LARGER, *AGAINST, HIGHER, LOWER)
MARGINS = {"bleu": 0.5, "chrf": 0.5, "rougeL": 0.5}
"""Default margins, in percent. An effect under the margin and half the claim is too small to be the claimed one."""


@dataclass(frozen=True)
class Expectation:
    """The claim about D. sign: +1 or -1; without a claim the better direction. size: the claimed D, or None.

    claimed: False if the row has no claim. margin: see `MARGINS`; for a claim of no effect (size 0) the largest effect that it allows.
    """

    sign: float
    size: float | None = None
    claimed: bool = True
    margin: float | None = None


@dataclass(frozen=True)
class Verdict:
    """A verdict. word: see above. reason: one sentence. seeds: per arm, to detect the claim or D; None: unknown or over 200."""

    word: str
    reason: str
    seeds: int | None = None


def p_of(differences: Sequence[Difference | None], deltas: Sequence[float], sign: float) -> float | None:
    """Returns p of the claim that the row differs from its strongest control, and from no other control in the other direction; None if
    a difference is missing. differences: to each control, means in `deltas`. The strongest control has the smallest."""
    p = [each.other_sentences.p for each in differences if each is not None]
    if not p or len(p) < len(differences):
        return None
    first = min(range(len(deltas)), key=lambda i: sign * deltas[i])
    return max(p) if sign * deltas[first] > 0 else min(1.0, len(p) * p[first])


def judge(
    expected: Expectation, found: Difference | None, p: float | None = None, *, controls: int = 1, level: float = LEVEL, digits: int = 2
) -> Verdict:
    """Returns the verdict on a difference.

    found: difference to the strongest control; None if an arm has one seed.
    p: p-value of the claim, adjusted for the table's other claims; default: p of `found`.
    controls: number of controls from which the strongest was chosen.
    level: level of significance, and of the intervals.
    digits: decimals of differences in the reason.
    """
    if found is None:
        return Verdict(ONE_SEED, "an arm has one seed; two are the least for a verdict")
    found = found.at(level)
    if math.isinf(found.choice):
        return Verdict(OPEN, "the search did not score its trials in this metric, so the variance of its choice is unknown")
    test, sign, size = found.other_sentences, expected.sign, expected.size
    p = test.p if p is None else p
    significant, effect = p < level, sign * found.delta
    if size == 0:
        return _no_effect(found, significant, expected.margin or 0.0, level, digits)
    needed = seeds_needed(size if size is not None else found.delta, found.spread, *found.kept, level=level)
    said = f"p = {p:.2g}"
    if significant and not expected.claimed:
        return Verdict(HIGHER if found.delta > 0 else LOWER, said, needed)
    if significant and effect < 0:
        return Verdict(REVERSED, f"significant with the opposite sign ({said})", needed)
    if significant:
        beyond = size is not None and abs(size) > max(sign * test.low, sign * test.high)
        before = size is not None and abs(size) < min(sign * test.low, sign * test.high)
        word = SMALLER if beyond else LARGER if before else CONFIRMED
        return Verdict(word, f"significant ({said})", needed)
    if size is not None:
        bound = effect + quantile(1 - level / controls, test.df) * test.se
        small = min(abs(size) / 2, math.inf if expected.margin is None else expected.margin)
        if bound < small:
            most, least = f"{sign * bound:+.{digits}f}", f"{sign * small:+.{digits}f}"
            return Verdict(NO_EFFECT, f"the effect is at most {most} (one-sided {100 * (1 - level):.3g} %), under {least}", needed)
    reason = f"{test.mde:.2g} is detectable with 80 % power"
    if test.p < level:
        return Verdict(OPEN, f"{reason}; significant alone, not over all claims{' and controls' if controls > 1 else ''}", needed)
    wanted = f"{size:+.{digits}f}" if size is not None else f"{found.delta:+.2g}"
    more = f"{needed} seeds would detect {wanted}" if needed is not None else f"{MOST_SEEDS} seeds would not detect {wanted}{_limit(found)}"
    return Verdict(OPEN, f"{reason}; {more}", needed)


def _limit(found: Difference) -> str:
    """Returns what more seeds do not reduce."""
    if found.choice > found.sentences:
        share = found.choice / found.other_sentences.se**2
        return f": the choice of the searches has {100 * share:.0f} % of the variance; more trials reduce it"
    return " on this test set"


def _no_effect(found: Difference, significant: bool, margin: float, level: float, digits: int) -> Verdict:
    test = found.other_sentences
    half = quantile(1 - level, test.df) * test.se
    needed = seeds_needed(margin, found.spread, *found.kept, level=level)
    if abs(found.delta) + half <= margin:
        interval = f"{found.delta - half:+.{digits}f} to {found.delta + half:+.{digits}f}"
        return Verdict(CONFIRMED, f"the {100 * (1 - 2 * level):.3g} % interval {interval} is within {margin:.{digits}f}", needed)
    if significant and min(abs(test.low), abs(test.high)) > margin:
        return Verdict(REVERSED, f"significantly over the margin of {margin:.{digits}f}", needed)
    limit = _limit(found) if needed is None else ""
    return Verdict(OPEN, f"{test.mde:.2g} is detectable with 80 % power; the margin is {margin:.{digits}f}{limit}", needed)
