"""A column of intervals as small forest plots: inline SVG on one scale, with a line at zero."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from orchestrator.report.table import Line

WIDTH, HEIGHT, EDGE = 132, 18, 5
"""Pixels; EDGE: kept free on either side."""


class Scale:
    """Maps differences to pixels; zero is always inside."""

    def __init__(self, values: Sequence[float]) -> None:
        self.low, self.high = min(0.0, *values, 0.0), max(0.0, *values, 0.0)
        if self.low == self.high:
            self.low, self.high = -1.0, 1.0

    def __call__(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return round(EDGE + share * (WIDTH - 2 * EDGE), 1)


def scale_of(lines: Sequence[Line]) -> Scale | None:
    """The common scale of the rows' intervals and of the paper's differences; None without an interval."""
    values = [value for line in lines if (own := ends_of(line)) is not None for value in own]
    return None if not values else Scale([*values, *(claim for line in lines if (claim := claim_of(line)) is not None)])


def axis(scale: Scale) -> Markup:
    """The head of the column: the ends of the scale and zero."""
    ends = [(EDGE, "start", scale.low), (WIDTH - EDGE, "end", scale.high)]
    texts = [
        Markup('<text x="{}" y="12" text-anchor="{}">{}</text>').format(x, anchor, f"{v:+.1f}") for x, anchor, v in ends if abs(v) > 0.05
    ]
    zero = Markup('<text x="{}" y="12" text-anchor="middle">0</text>').format(scale(0.0))
    crowded = min(abs(scale(0.0) - EDGE), abs(WIDTH - EDGE - scale(0.0))) < 24
    return _svg(Markup("").join([*texts, Markup("") if crowded and len(texts) > 1 else zero]), "scale of the intervals")


def plot(line: Line, scale: Scale) -> Markup:
    """One row: its interval, its difference as a dot, the paper's as a diamond. Empty without a difference."""
    effect = effect_of(line)
    if not effect:
        return Markup("")
    zero, middle = scale(0.0), HEIGHT / 2
    parts = [Markup('<line class="zero" x1="{0}" x2="{0}" y1="0" y2="{1}"/>').format(zero, HEIGHT)]
    if (ends := ends_of(line)) is not None:
        parts.append(Markup('<line class="ci" x1="{}" x2="{}" y1="{}" y2="{}"/>').format(scale(ends[0]), scale(ends[1]), middle, middle))
    parts.append(Markup('<circle cx="{}" cy="{}" r="3.2"/>').format(scale(effect["delta"]), middle))
    if (claim := claim_of(line)) is not None:
        x = scale(claim)
        shape = f"M{x} {middle - 4.5}L{x + 4} {middle}L{x} {middle + 4.5}L{x - 4} {middle}Z"
        parts.append(Markup('<path class="paper" d="{}"><title>the paper: {}</title></path>').format(shape, f"{claim:+.2f}"))
    return _svg(Markup("").join(parts), f"difference {effect['delta']:+.2f}")


def _svg(inner: Markup, label: str) -> Markup:
    head = Markup('<svg class="forest" width="{0}" height="{1}" viewBox="0 0 {0} {1}" role="img" aria-label="{2}">').format(
        WIDTH, HEIGHT, label
    )
    return head + inner + Markup("</svg>")


def effect_of(line: Line) -> Mapping[str, Any]:
    return (line.ours or {}).get("effect") or {}


def ends_of(line: Line) -> tuple[float, float] | None:
    answer = effect_of(line).get("other_seeds_and_sentences")
    return None if answer is None else (answer["low"], answer["high"])


def claim_of(line: Line) -> float | None:
    value = ((line.ours or {}).get("verdict") or {}).get("claim")
    return None if value is None else float(value)
