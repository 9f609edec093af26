"""Drawing helpers: colours that are distinct in print and for colour-blind readers, heat maps, legends, labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C6D31")
"""The palette of Okabe and Ito (2008), with brown instead of yellow."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")


def colour(index: int) -> str:
    return COLOURS[index % len(COLOURS)]


def marker(index: int) -> str:
    """Returns the marker of a line. It shifts when the colours repeat, so that colour and marker together distinguish 64 lines."""
    return MARKERS[(index + index // len(COLOURS)) % len(MARKERS)]


def plot_curve(axes: Axes, index: int, points: Sequence[tuple[Any, float]], label: str, line: str = "-", most_markers: int = 30) -> None:
    """Draws one of several curves, with markers if it has at most `most_markers` points."""
    mark = marker(index) if len(points) <= most_markers else None
    axes.plot(*zip(*points, strict=True), line, color=colour(index), marker=mark, markersize=4, linewidth=1.2, label=short(label))


def heat_map(axes: Axes, values: Sequence[Sequence[float | None]], low: float, high: float, colours: str = "viridis") -> Any:
    """Draws rows of values in [low, high]; None is an empty cell. Returns the image, for a colour bar."""
    table = np.array([[np.nan if value is None else value for value in row] for row in values], dtype=float)
    return axes.imshow(np.ma.masked_invalid(table), cmap=colours, vmin=low, vmax=high, aspect="auto", interpolation="nearest")


def integer_ticks(axes: Axes, nbins: int = 10, *, integer: bool = True) -> None:
    axes.xaxis.set_major_locator(MaxNLocator(nbins=nbins, integer=integer))


def label_rows(axes: Axes, labels: Sequence[str]) -> None:
    """Labels the rows of the axes, the first one at the top."""
    axes.set_yticks(range(len(labels)), labels)
    axes.invert_yaxis()


def legend(figure: Figure, axes: Axes) -> None:
    """Draws the legend inside the axes if it has at most three entries, else below them, where it hides no curve."""
    handles, labels = axes.get_legend_handles_labels()
    if len(handles) <= 3:
        axes.legend()
    else:
        figure.legend(handles, labels, loc="outside lower center", ncols=2)
        figure.set_figheight(figure.get_figheight() + 0.22 * ((len(handles) + 1) // 2))


def legend_below(figure: Figure, handles: Sequence[Any], labels: Sequence[str]) -> None:
    if handles:
        figure.legend(handles, labels, loc="outside lower center", ncols=min(3, len(handles)))


def clip_at_zero(axes: Axes) -> None:
    """Limits the y axis to non-negative values, as for percentages."""
    low, high = axes.get_ylim()
    axes.set_ylim(max(0.0, low), max(high, 1.0))


def short(text: str, limit: int = 40) -> str:
    """Truncates a label to `limit` characters."""
    return text if len(text) <= limit else text[: limit - 3].rstrip() + "..."


def plot_ratios(axes: Axes, ours: Sequence[float], paper: Sequence[float | None]) -> None:
    """Draws ratios to the first row: ours as dots, the paper's as crosses, with a line at 1."""
    axes.plot(ours, range(len(ours)), "o", color="tab:blue", label="here")
    reported = [(value, place) for place, value in enumerate(paper) if value is not None]
    if reported:
        axes.plot(*zip(*reported, strict=True), "x", color="tab:red", label="paper")
    axes.axvline(1.0, color="black", linewidth=0.8)
    axes.set_xlabel("ratio to the first row")
