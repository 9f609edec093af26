"""How figures look: colours that stay apart in print and for the colour-blind, and heat maps with their values in the cells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C6D31")
"""After Okabe and Ito 2008."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")


def colour(index: int) -> str:
    return COLOURS[index % len(COLOURS)]


def marker(index: int) -> str:
    """Another one when the colours start again: colour and marker together tell 64 lines apart."""
    return MARKERS[(index + index // len(COLOURS)) % len(MARKERS)]


def heat(axes: Axes, values: Sequence[Sequence[float | None]], low: float, high: float, colours: str = "viridis") -> Any:
    """A heat map of rows of values in [low, high]; None is an empty cell. Returns the image, for a colour bar."""
    import numpy as np

    table = np.array([[np.nan if value is None else value for value in row] for row in values], dtype=float)
    return axes.imshow(np.ma.masked_invalid(table), cmap=colours, vmin=low, vmax=high, aspect="auto", interpolation="nearest")


def write_in(axes: Axes, x: int, y: int, text: str, value: float, low: float, high: float) -> None:
    """Text in the cell at column x, row y of a heat map, light on dark and dark on light."""
    dark = high <= low or (value - low) / (high - low) < 0.6
    axes.text(x, y, text, ha="center", va="center", fontsize=7, color="white" if dark else "black")


def legend(figure: Figure, axes: Axes) -> None:
    """In the axes where it is small, else below them: it hides no curve."""
    handles, labels = axes.get_legend_handles_labels()
    if len(handles) <= 3:
        axes.legend()
    else:
        figure.legend(handles, labels, loc="outside lower center", ncols=2)
        figure.set_figheight(figure.get_figheight() + 0.22 * ((len(handles) + 1) // 2))


def from_zero(axes: Axes) -> None:
    """No percentage is below 0: neither is the axis."""
    low, high = axes.get_ylim()
    axes.set_ylim(max(0.0, low), max(high, 1.0))


def short(text: str, limit: int = 40) -> str:
    """A label that fits in a legend."""
    return text if len(text) <= limit else text[: limit - 3].rstrip() + "..."
