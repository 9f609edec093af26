"""Verdicts on claims: does a difference that a paper reports, or a user expects, hold for our runs?

    reproduced       significant, of the claim's sign, and the claim lies in the prediction interval of a replication
    same direction   significant, of the claim's sign, outside that interval
    contradicted     significant with the other sign, or the one-sided 95 % bound of the effect is under min(margin, |claim| / 2)
    underpowered     none of these: the data do not decide
    one seed         an arm has one seed; there is no verdict

Without a claim a significant difference is higher or lower, any other one undecided.

The prediction interval is that of Patil et al. (2016), the bound on small effects follows Simonsohn's small telescopes (2015). A claim of
no effect is reproduced if the 90 % interval lies within its margin, and contradicted if the effect is significant and beyond the margin.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from orchestrator.scoring.significance.estimator import LEVEL, Difference, detectable, quantile, seeds_needed

REPRODUCED, SAME, CONTRADICTED, UNDERPOWERED, ONE_SEED = "reproduced", "same direction", "contradicted", "underpowered", "one seed"
HIGHER, LOWER, UNDECIDED = "higher", "lower", "undecided"
DECIDED = (REPRODUCED, SAME, CONTRADICTED, HIGHER, LOWER)
MARGINS = {"bleu": 0.5, "chrf": 0.5, "rougeL": 0.5}
"""Default margins, in percent. An effect under the margin or half the claim is too small to be the claimed one."""
AGREEMENT = {"bleu": (0.883, 0.966)}
"""Of human judgements with a difference x between two systems: a / (1 + exp(-b x)) (Kocmi et al. 2024)."""


@dataclass(frozen=True)
class Verdict:
    """word: one of those above. reason: one sentence. seeds: of each arm that would find the claim, or D; None: unknown or over 200."""

    word: str
    reason: str
    seeds: int | None = None


def judge(
    claim: float | None, found: Difference | None, p: float | None = None, *, margin: float | None = None, level: float = LEVEL
) -> Verdict:
    """The verdict on a difference.

    Args:
        claim: the claimed D, in the metric's units; None: there is no claim.
        found: ours; None if an arm has one seed.
        p: the p-value of "other seeds, other sentences", adjusted for the table's other rows; by default unadjusted.
        margin: largest effect that a claim of no effect allows, and below which an effect is too small to be the claimed one, as one
            below half the claim is.
        level: of significance, and of the one-sided bounds.
    """
    if found is None:
        return Verdict(ONE_SEED, "an arm has one seed; two are the least for a verdict")
    test = found.other_sentences
    p = test.p if p is None else p
    significant = p < level
    if claim is None:
        word = UNDECIDED if not significant else HIGHER if found.delta > 0 else LOWER
        return Verdict(word, f"no claim; p = {p:.2g}", seeds_needed(found.delta, found.spread, found.sentences, level))
    if claim == 0:
        return _no_effect(found, significant, margin or 0.0, level)
    needed = seeds_needed(claim, found.spread, found.sentences, level)
    sign = math.copysign(1.0, claim)
    effect = sign * found.delta
    if significant and effect > 0:
        low, high = prediction(claim, found)
        if low <= found.delta <= high:
            return Verdict(REPRODUCED, f"significant (p = {p:.2g}), within the replication's interval {low:+.2f} to {high:+.2f}", needed)
        return Verdict(SAME, f"significant (p = {p:.2g}), outside the replication's interval {low:+.2f} to {high:+.2f}", needed)
    if significant:
        return Verdict(CONTRADICTED, f"significant with the opposite sign (p = {p:.2g})", needed)
    bound, small = effect + quantile(1 - level, test.df) * test.se, min(abs(claim) / 2, math.inf if margin is None else margin)
    if bound < small:
        reason = f"the effect is at most {sign * bound:+.2f} (one-sided {100 * (1 - level):.0f} %), under {sign * small:+.2f}"
        return Verdict(CONTRADICTED, reason, needed)
    more = (
        f"{needed} seeds would find {claim:+.2f}" if needed is not None else f"no number of seeds would find {claim:+.2f} on this test set"
    )
    return Verdict(UNDERPOWERED, f"80 % power finds {detectable(test.se, test.df, level):.2f}; {more}", needed)


def prediction(claim: float, found: Difference) -> tuple[float, float]:
    """The 95 % interval for our D if the claim is the true effect, measured once by the paper with our spread over seeds."""
    test = found.other_sentences
    paper = 2 * found.spread.variance + found.sentences
    half = quantile(1 - LEVEL / 2, test.df) * math.sqrt(test.se**2 + paper)
    return claim - half, claim + half


def agreement(metric: str, delta: float) -> float | None:
    """The share of human judgements, 0 to 1, that agree with such a difference; None for metrics without a known curve."""
    if metric not in AGREEMENT:
        return None
    a, b = AGREEMENT[metric]
    return a / (1 + math.exp(-b * abs(delta)))


def _no_effect(found: Difference, significant: bool, margin: float, level: float) -> Verdict:
    test = found.other_sentences
    half = quantile(1 - level, test.df) * test.se
    needed = seeds_needed(margin, found.spread, found.sentences, level)
    if abs(found.delta) + half <= margin:
        interval = f"{found.delta - half:+.2f} to {found.delta + half:+.2f}"
        return Verdict(REPRODUCED, f"the {100 * (1 - 2 * level):.0f} % interval {interval} is within {margin:.2f}", needed)
    if significant and abs(found.delta) > margin:
        return Verdict(CONTRADICTED, f"significant and over the margin of {margin:.2f}", needed)
    return Verdict(UNDERPOWERED, f"80 % power finds {detectable(test.se, test.df, level):.2f}; the margin is {margin:.2f}", needed)
