"""Drawing helpers: one colour a model, one marker a depth or seed of it, sizes for one and two columns of a paper, heat maps, labels.

The palette can be told apart in print and by colour-blind readers; no figure gives one colour to two models.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from orchestrator.analysis.base import Records, by_row
from orchestrator.safe_text import visible

COLUMN, PAGE = 3.3, 6.9
"""Widths in inches of one and two columns of a paper."""
PANEL = 2.1
"""Height of a panel in inches, and the least width of one."""
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C6D31")
"""The palette of Okabe and Ito (2008), with brown instead of yellow."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">", "p", "h")
MOST_MARKERS = 40
"""Points of a curve up to which each has a marker."""
RC: Mapping[str, Any] = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.titlelocation": "left",
    "axes.labelsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "legend.frameon": False,
    "figure.titlesize": 8,
    "lines.linewidth": 1.2,
    "lines.markersize": 4,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.alpha": 0.3,
    "pdf.fonttype": 42,  # TrueType: publishers refuse matplotlib's default, Type 3
    "svg.hashsalt": "nmt-ablate",
}
"""What all figures look like; the salt makes equal figures identical files."""
_MODEL = re.compile(r"((?:[^,(]|\([^)]*\)?)*),?\s*(.*)")


@dataclass(frozen=True)
class Style:
    """How a row is drawn. model: its label up to the first comma; variant: the rest, and the seed where there are several."""

    model: str
    variant: str
    colour: str
    marker: str

    @property
    def name(self) -> str:
        return short(", ".join(part for part in (self.model, self.variant) if part), 48)

    def line(self, style: str = "-", **more: Any) -> dict[str, Any]:
        """Arguments of `Axes.plot`."""
        return {"color": self.colour, "marker": self.marker, "linestyle": style} | more


def colours(count: int) -> list[str]:
    """Returns as many different colours: of the palette, or for more than it has, steps of viridis from dark to light."""
    if count <= len(COLOURS):
        return list(COLOURS[:count])
    return [to_hex(colormaps["viridis"](i / (count - 1) * 0.93)) for i in range(count)]


def marker(index: int) -> str:
    return MARKERS[index % len(MARKERS)]


def model_of(label: str) -> tuple[str, str]:
    """Splits a label at its first comma outside of brackets: `DLCL, 6 layers` is DLCL, with 6 layers."""
    found = _MODEL.fullmatch(label)
    return (found[1].strip(), found[2].strip()) if found else (label, "")


def styles(records: Records) -> dict[tuple[str, int], Style]:
    """Maps (row, seed) to its style: a colour a model, and a marker a variant of it; each row its own of both if no model has variants.

    Rows of one label are told apart by their address, runs of one row by their seed.
    """
    rows = {key: own[0]["label"] for key, own in by_row(records).items()}
    names = {row: label for (row, _), label in rows.items()}
    shared = {label for label, count in Counter(names.values()).items() if count > 1}
    split = {}
    for (row, seed), label in rows.items():
        model, variant = model_of(label)
        model += f" [{row.partition('/')[2]}]" if label in shared else ""
        split[row, seed] = model, ", ".join(filter(None, (variant, f"seed {seed}" if len(rows) > len(names) else "")))
    models, variants = (list(dict.fromkeys(pair[i] for pair in split.values())) for i in (0, 1))
    each = list(dict.fromkeys(split.values()))
    palette = colours(len(models) if len(models) > 1 else len(each))
    found = {}
    for key, (model, variant) in split.items():
        mine = models.index(model) if len(models) > 1 else each.index((model, variant))
        mark = models.index(model) if len(each) == len(models) else variants.index(variant)
        found[key] = Style(model, variant, palette[mine], marker(mark))
    return found


def plot_curve(axes: Axes, x: Sequence[float], y: Sequence[float], style: Style, **look: Any) -> None:
    """Draws one curve, with a marker a point if there are few."""
    axes.plot(x, y, **style.line() | {"marker": style.marker if len(x) <= MOST_MARKERS else None} | look)


def both_curves() -> list[Line2D]:
    """Returns the entries of a legend that tell training from validation."""
    return [Line2D([], [], color="0.25", linestyle=line, label=data) for data, line in (("training", "--"), ("validation", "-"))]


def width_of(rows: int) -> str:
    """Returns the width for curves of so many rows in one panel."""
    return "column" if rows <= 6 else "page"


def handles(found: Mapping[Any, Style]) -> list[Line2D]:
    """Returns the entries of a legend, one a row."""
    return [Line2D([], [], **style.line(), label=style.name) for style in dict.fromkeys(found.values())]


def legend(figure: Figure, entries: Sequence[Any]) -> None:
    """Draws the legend below the axes, where it hides no curve, in as many columns as its labels leave room for, and makes room for it."""
    if not entries:
        return
    longest = max(len(str(entry.get_label())) for entry in entries)
    columns = max(1, min(len(entries), int(figure.get_figwidth() / (0.42 + 0.051 * longest))))
    lines = -(-len(entries) // columns)
    figure.legend(handles=list(entries), loc="outside lower center", ncols=columns, columnspacing=1.2, handletextpad=0.5)
    figure.set_figheight(figure.get_figheight() + 0.08 + 0.16 * lines)


def panels(figure: Figure, count: int, height: float = PANEL, most: int = 3, **more: Any) -> list[Axes]:
    """Returns `count` axes in lines of at most `most`, fewer in a narrow figure, and makes the figure as high as they need."""
    across = max(1, min(most, count, int(figure.get_figwidth() / PANEL)))
    down = -(-count // across)
    figure.set_figheight(height * down + 0.15)
    axes = list(figure.subplots(down, across, squeeze=False, **more).flat)
    for empty in axes[count:]:
        empty.set_axis_off()
    return axes[:count]


@dataclass(frozen=True)
class HeatMap:
    """A table of values with the labels of its rows and columns; None is an empty cell. texts: written into cells (row, column)."""

    title: str
    rows: Sequence[str]
    columns: Sequence[str]
    values: Sequence[Sequence[float | None]]
    texts: Mapping[tuple[int, int], str] = field(default_factory=dict)

    @classmethod
    def of(cls, records: Records, title: str, rows: str, columns: str, value: str, labels: tuple[str, str] | None = None) -> HeatMap:
        """Makes a map of records that have keys for the row and the column, with other columns as `labels` if given."""
        names = [{r[key]: str(r[label]) for r in records} for key, label in zip((rows, columns), labels or (rows, columns), strict=True)]
        i_names, j_names = (dict(sorted(own.items())) if all(isinstance(key, int) for key in own) else own for own in names)
        cells = {(r[rows], r[columns]): r[value] for r in records}
        return cls(title, list(i_names.values()), list(j_names.values()), [[cells.get((i, j)) for j in j_names] for i in i_names])

    def first(self, most: int) -> HeatMap:
        """Returns the first `most` rows and columns; the title says so."""
        cut = f", first {most} tokens" if max(len(self.rows), len(self.columns)) > most else ""
        return HeatMap(self.title + cut, self.rows[:most], self.columns[:most], [row[:most] for row in self.values[:most]], self.texts)


def heat_maps(
    figure: Figure,
    grid: Sequence[Sequence[HeatMap]],
    axes_labels: tuple[str, str],
    bar: str,
    scale: tuple[float, float, str] | None = None,
    cell: float = 0.21,
) -> None:
    """Draws lines of maps; the first row of a map is at the top.

    axes_labels: of columns and rows. bar: label of the colour bar. scale: (low, high, colours) of all maps; None: each has its own.
    cell: inches.
    """
    across = max(len(line) for line in grid)
    heights = [1.0 + cell * max(len(each.rows) for each in line) for line in grid]
    widths = [1.1 + cell * max(len(line[i].columns) for line in grid if i < len(line)) for i in range(across)]
    figure.set_size_inches(sum(widths) + 0.9, sum(heights) + 0.3)
    panels = figure.subplots(len(grid), across, squeeze=False, width_ratios=widths, height_ratios=heights)
    image: Any = None
    for line, maps in zip(panels, grid, strict=True):
        for axes in line[len(maps) :]:
            axes.set_axis_off()
        for axes, one in zip(line, maps, strict=False):
            table = np.array(one.values, dtype=float)  # None becomes nan
            high = np.nanmax(np.abs(table)) or 1.0
            low, high, colours = scale or ((-high, high, "RdBu_r") if np.nanmin(table) < 0 else (0.0, high, "viridis"))
            image = axes.imshow(np.ma.masked_invalid(table), cmap=colours, vmin=low, vmax=high, aspect="auto", interpolation="nearest")
            axes.set_xticks(range(len(one.columns)), [short(name, 14) for name in one.columns])
            axes.set_yticks(range(len(one.rows)), [short(name, 18) for name in one.rows])
            axes.tick_params(axis="x", rotation=90 if max(map(len, one.columns)) > 3 else 0)
            axes.set(title=one.title, xlabel=axes_labels[0], ylabel=axes_labels[1])
            for (y, x), text in one.texts.items():
                dark = colours == "viridis" and table[y, x] < low + 0.6 * (high - low)
                axes.text(x, y, text, ha="center", va="center", fontsize=7, color="white" if dark else "black")
            if scale is None:
                figure.colorbar(image, ax=axes, fraction=0.05)
    if scale is not None:
        figure.colorbar(image, ax=panels, label=bar, fraction=0.03, aspect=40)


def integer_ticks(axes: Axes, nbins: int = 6, *, integer: bool = True) -> None:
    axes.xaxis.set_major_locator(MaxNLocator(nbins=nbins, integer=integer))


def label_rows(axes: Axes, labels: Sequence[str]) -> None:
    """Labels the rows of the axes, the first one at the top."""
    axes.set_yticks(range(len(labels)), [short(label, 48) for label in labels])
    axes.set_ylim(len(labels) - 0.5, -0.5)


def short(text: str, limit: int = 40) -> str:
    """Truncates a label to `limit` characters, escaped: two dollars would make a formula."""
    text = visible(text)
    return re.sub(r"(?<!\\)\$", r"\\$", text if len(text) <= limit else text[: limit - 3].rstrip() + "...")


def without_note(label: str) -> str:
    """Cuts brackets at the end of a label, such as `(control, not in the paper)`."""
    return re.sub(r"\s*\([^()]*\)$", "", label)


def dodged(places: Sequence[float], index: int, count: int, width: float) -> list[float]:
    """Moves the points of curve `index` of `count` aside, so that bars at one place do not cover each other; width: of the axis."""
    return [place + 0.012 * width * (index - (count - 1) / 2) for place in places]
