"""What a search finds with fewer trials, and how much more trials may still find."""

import math
from collections.abc import Sequence


def expected_best(values: Sequence[float], *, larger: bool = False) -> list[float]:
    """The expected best of n of these values, drawn without replacement, for n = 1, 2, ..

    The unbiased form (Tang et al. 2020, eq. 5) of the expected maximum of Dodge et al. (2019, eq. 4): with v_1 the worst of N values,
    sum_i v_i C(i - 1, n - 1) / C(N, n).
    """
    ordered = sorted(values, reverse=not larger)
    size = len(ordered)
    return [sum(v * math.comb(i, n - 1) for i, v in enumerate(ordered)) / math.comb(size, n) for n in range(1, size + 1)]


def gap(values: Sequence[float], *, larger: bool = False) -> float | None:
    """What the second half of these trials has gained: the expected best of all less that of half of them; None below two values.

    A measure of what as many trials more might still gain, and of how far two arms with the same best may lie apart by their draws.
    """
    if len(values) < 2:
        return None
    best = expected_best(values, larger=larger)
    return abs(best[-1] - best[math.ceil(len(values) / 2) - 1])
