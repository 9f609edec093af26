"""Figures and files of analyses: one colour a model, one marker a depth of it, sizes for one and two columns of a paper.

The palette can be told apart in print and by colour-blind readers; no figure gives one colour to two models.
"""

import io
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from orchestrator.analysis.base import Analysis, AnalysisContext, Records, group_by
from orchestrator.files import atomic
from orchestrator.safe_text import visible

COLUMN, PAGE = 3.3, 6.9
"""Widths in inches of one and two columns of a paper."""
WIDTHS = {"column": COLUMN, "page": PAGE}
PANEL = 2.1
"""Height of a panel in inches, and the least width of one."""
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C6D31")
"""The palette of Okabe and Ito (2008), with brown instead of yellow."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">", "p", "h")
RC = matplotlib.rc_params_from_file(Path(__file__).with_name("figures.mplstyle"), use_default_template=False)
"""What all figures look like."""
_MODEL = re.compile(r"((?:[^,(]|\([^)]*\)?)*),?\s*(.*)")


Style = dict[str, Any]
"""How the line of a row is drawn: its label, color and marker."""


def colours(count: int) -> list[str]:
    """Returns `count` different colours for categories, none of which is more than another: from the smallest palette that has enough."""
    many = [to_hex(colour) for name in ("tab20", "tab20b", "tab20c") for colour in colormaps[name].colors]  # type: ignore[attr-defined]
    found = COLOURS if count <= len(COLOURS) else many
    return list(found[:count]) if count <= len(found) else [to_hex(colormaps["hsv"](i / count)) for i in range(count)]


def model_of(label: str) -> tuple[str, str]:
    """Splits a label at its first comma outside of brackets: `DLCL, 6 layers` is DLCL, with 6 layers."""
    found = _MODEL.fullmatch(label)
    return (found[1].strip(), found[2].strip()) if found else (label, "")


def styles(records: Iterable[dict[str, Any]]) -> dict[str, Style]:
    """Maps each row to its style: a colour a model, and a marker a variant of it; each row its own of both if no model has variants.

    Rows of one label are told apart by their address.
    """
    labels = {r["row"]: r["label"] for r in records}
    shared = {label for label, count in Counter(labels.values()).items() if count > 1}
    split = {row: model_of(label) for row, label in labels.items()}
    split |= {row: (f"{split[row][0]} [{row.partition('/')[2]}]", split[row][1]) for row, label in labels.items() if label in shared}
    models, variants = (list(dict.fromkeys(pair[i] for pair in split.values())) for i in (0, 1))
    palette, found = colours(len(models) if len(models) > 1 else len(variants)), {}
    for row, (model, variant) in split.items():
        colour = models.index(model) if len(models) > 1 else variants.index(variant)
        mark = models.index(model) if len(models) == len(split) else variants.index(variant)
        name = short(", ".join(filter(None, (model, variant))), 48)
        found[row] = {"label": name, "color": palette[colour], "marker": MARKERS[mark % len(MARKERS)]}
    return found


def curves(figure: Figure, by_title: Mapping[str, Records], x: str, y: str, **layout: Any) -> tuple[list[Axes], dict[str, Style]]:
    """Draws a panel of curves per title, one a row, with a legend below. Returns the panels and the styles of the rows.

    Where the records of a panel have both `data`, training is dashed without markers and validation solid.
    """
    found = styles(r for records in by_title.values() for r in records)
    both = False
    drawn = panels(figure, len(by_title), **layout)
    for axes, (title, records) in zip(drawn, by_title.items(), strict=True):
        has_both = len({r.get("data") for r in records}) > 1
        both |= has_both
        for row, of_row in group_by(records, "row").items():
            for data in dict.fromkeys(r.get("data") for r in of_row):
                own = [r for r in of_row if r.get("data") == data]
                look = found[row] | {"linestyle": "-"}
                if has_both and data == "training":
                    look |= {"marker": None, "linestyle": "--", "linewidth": 0.9}
                elif len(own) > 40:
                    look["marker"] = None
                axes.plot([r[x] for r in own], [r[y] for r in own], **look)
        if not any(isinstance(r[x], str) for r in records):
            axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=axes.get_xlim()[1] > 4))
        axes.set_title(short(title, 60))
        axes.grid()
    entries = [Line2D([], [], **style, linestyle="-") for style in found.values()]
    if both:
        entries += [Line2D([], [], color="0.25", linestyle=line, label=data) for data, line in (("training", "--"), ("validation", "-"))]
    legend(figure, entries)
    return drawn, found


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
    """A table of values, whose index and columns are the labels; nan is an empty cell. texts: written into the cells."""

    title: str
    table: pd.DataFrame
    texts: pd.DataFrame | None = None


def heat_maps(
    figure: Figure,
    grid: Sequence[Sequence[HeatMap]],
    axes_labels: tuple[str, str],
    bar: str,
    scale: tuple[float, float, str] | None = None,
    cell: float = 0.21,
) -> None:
    """Draws lines of maps; the first row of a map is at the top.

    axes_labels: of columns and rows. bar: the colour bar's label. scale: (low, high, colours) of all maps; None: one per map. cell: inches.
    """
    across = max(len(line) for line in grid)
    heights = [1.0 + cell * max(len(each.table) for each in line) for line in grid]
    widths = [1.1 + cell * max(len(line[i].table.columns) for line in grid if i < len(line)) for i in range(across)]
    figure.set_size_inches(sum(widths) + 0.9, sum(heights) + 0.3)
    panels = figure.subplots(len(grid), across, squeeze=False, width_ratios=widths, height_ratios=heights)
    image: Any = None
    for line, maps in zip(panels, grid, strict=True):
        for axes in line[len(maps) :]:
            axes.set_axis_off()
        for axes, one in zip(line, maps, strict=False):
            table, names = one.table.to_numpy(dtype=float), [str(name) for name in one.table.columns]
            high = np.nanmax(np.abs(table)) or 1.0
            low, high, colours = scale or ((-high, high, "RdBu_r") if np.nanmin(table) < 0 else (0.0, high, "viridis"))
            image = axes.imshow(np.ma.masked_invalid(table), cmap=colours, vmin=low, vmax=high, aspect="auto", interpolation="nearest")
            axes.set_xticks(range(len(names)), [short(name, 14) for name in names])
            axes.set_yticks(range(len(table)), [short(str(name), 18) for name in one.table.index])
            axes.tick_params(axis="x", rotation=90 if max(map(len, names)) > 3 else 0)
            axes.set(title=one.title, xlabel=axes_labels[0], ylabel=axes_labels[1])
            for (y, x), text in np.ndenumerate([] if one.texts is None else one.texts.to_numpy()):
                dark = colours == "viridis" and table[y, x] < low + 0.6 * (high - low)
                axes.text(x, y, text, ha="center", va="center", fontsize=7, color="white" if dark else "black")
            if scale is None:
                figure.colorbar(image, ax=axes, fraction=0.05)
    if scale is not None:
        figure.colorbar(image, ax=panels, label=bar, fraction=0.03, aspect=40)


def short(text: str, limit: int = 40) -> str:
    """Truncates a label to `limit` characters, escaped: two dollars would make a formula."""
    text = visible(text)
    return re.sub(r"(?<!\\)\$", r"\\$", text if len(text) <= limit else text[: limit - 3].rstrip() + "...")


def write(kind: str, analysis: Analysis, context: AnalysisContext, out: Path) -> dict[str, Path]:
    """Writes `out`/KIND.{json,csv,png,svg,pdf} (without a figure the first two); returns suffix -> path. Raises OSError naming the file."""
    subjects = [
        {"id": s.row.id, "label": s.label, "seed": s.spec.seed, "keys": s.keys.as_dict()}
        | ({"asked": s.analysis_row.id} if s.analysis_row else {})
        for s in context.subjects
    ]
    document: dict[str, Any] = {"kind": kind, "options": context.options, "subjects": subjects}
    document = atomic.plain(document | {"columns": analysis.columns, "records": analysis.records, "notes": analysis.notes})
    table = pd.DataFrame(analysis.records, columns=analysis.columns, dtype=object).to_csv(index=False, lineterminator="\n")
    contents = {"json": (json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode(), "csv": table.encode()}
    contents |= images(analysis, WIDTHS[analysis.width])
    paths = {suffix: out / f"{kind}.{suffix}" for suffix in contents}
    for suffix, data in contents.items():
        atomic.write_bytes(paths[suffix], data)
    return paths


def images(analysis: Analysis, width: float) -> dict[str, bytes]:
    """Returns the figure by suffix; empty without one. width: inches."""
    found: dict[str, bytes] = {}
    if analysis.draw is None:
        return found
    with matplotlib.rc_context(dict(RC)):
        figure = Figure(figsize=(width, PANEL + 0.3), layout="constrained")
        FigureCanvasAgg(figure)
        analysis.draw(figure, analysis.records)
        # no dates and versions, so that equal figures give identical files
        for suffix, metadata in (("png", {"Software": None}), ("svg", {"Date": None}), ("pdf", {"CreationDate": None})):
            image = io.BytesIO()
            figure.savefig(image, format=suffix, dpi=200, metadata=metadata)
            found[suffix] = image.getvalue()
    return found
