"""Online control of the false discovery rate, for claims that arrive one after the other and without end.

LORD++ (Ramdas, Yang, Wainwright and Jordan 2017, NeurIPS, section 3). The t-th p-value is a discovery if it is at most

    alpha_t = gamma_t w_0 + (alpha - w_0) gamma_{t - tau_1} + alpha sum_{j >= 2} gamma_{t - tau_j},    tau_j < t,

with tau_j the number of the j-th discovery and gamma_i = i^-1.6 / zeta(1.6), whose sum is 1 (Ramdas et al. 2018). Each discovery raises
the following levels. At any time the expected share of false discoveries is at most alpha, if the p-values of claims without an effect are
independent of earlier p-values. If no claim has an effect, the probability of any discovery is at most w_0, under any dependence.
"""

from collections.abc import Iterable
from itertools import chain, repeat

ALPHA = 0.05
START = ALPHA / 2
"""w_0: the sum of the levels before the first discovery."""
ZETA = 2.2857657
"""sum_i i^-1.6."""


def share(i: int) -> float:
    """gamma_i."""
    return i**-1.6 / ZETA


def level(number: int, discoveries: Iterable[int]) -> float:
    """Returns alpha_t of the claim with this number. discoveries: numbers of earlier discoveries, in order. Numbers count from 1."""
    weights = chain((START, ALPHA - START), repeat(ALPHA))
    return sum(weight * share(number - place) for weight, place in zip(weights, (0, *discoveries), strict=False))
