"""BLEU as a function of one option of a component: one point per row, one line per group of rows, baselines (without the component) dashed.

The figures of a row are its own score and those of its `also` and `means`, over its seeds.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from matplotlib.figure import Figure

from models.registry import REGISTRIES
from orchestrator.analysis import figures
from orchestrator.analysis.base import Analysis, AnalysisContext, Records, Subject, group_by
from orchestrator.analysis.intervals import Intervals
from orchestrator.errors import UserError
from orchestrator.report.figures import figures as figures_of

DASHES = ("-", "-.", ":")
Point = tuple[Any, int | str]
"""(group, value of the option). A value that is not a number, such as J, comes last on the axis."""


@dataclass(frozen=True)
class OptionCurve:
    """An analysis of one option. `option` and `group` name the columns for its value and for the group of rows that forms a line.

    kind: the kind of analysis. point: maps a subject to its point, None for a baseline. component: what rows with the option have; example:
    of a baseline, None if there are none; both for messages. axis: text of the figure.
    """

    kind: str
    option: str
    group: str
    point: Callable[[Subject], Point | None]
    component: str
    axis: str
    example: str | None = None

    def analyse(self, context: AnalysisContext) -> Analysis:
        """Returns one record per row and figure; the option is null for a baseline. Raises UserError if no row has the component."""
        intervals = Intervals(context, context.subjects)
        starts = {s.spec.init_from for s in context.subjects if self.point(s) is not None} - {None}
        records = [record for subject in context.subjects for record in self._analyse_row(subject, intervals, starts)]
        values = {r[self.option] for r in records if r[self.option] is not None}
        if not values:
            raise UserError(f"{self.kind}: found no row with {self.component}; expected some with different {self.option}")
        words = list(dict.fromkeys(r[self.group] for r in records))  # numbers are sorted, words stay in the order of the rows
        place = {group: words.index(group) if isinstance(group, str) else group or 0 for group in words}
        records.sort(key=lambda r: (r[self.option] is not None, place[r[self.group]], sort_key(r[self.option])))
        notes = [line for subject in context.subjects for line in _missing_figures(subject, records)]
        if len(values) == 1:
            notes.append(f"only one {self.axis} is there: nothing to compare")
        if self.example is not None and all(record[self.option] is not None for record in records):
            notes.append(f"no baseline among the rows; name one beside them, e.g. {self.example}")
        signatures = {(r["figure"], r["signature"]) for r in records if r["signature"]}
        if len(signatures) > len({figure for figure, _ in signatures}):
            notes.append("rows are scored differently: see signature")
        notes += intervals.notes([r["over"] for r in records if r["signature"]])
        columns = ["row", "label", "seeds", self.group, self.option, "figure", "bleu", "half_width", "over"]
        return Analysis(self.kind, records, partial(self.draw, records), notes, shown=columns, width="column")

    def _analyse_row(self, subject: Subject, intervals: Intervals, starts: set[str | None]) -> Records:
        """Returns the figures of one row over its seeds: its own test set, then those of `also` and `means`."""
        ours = figures_of(subject.row, intervals.outcomes[subject.row.id])
        if ours is None or "bleu" not in ours:
            return []
        group, value = self.point(subject) or (None, None)
        columns = {"row": subject.row.id, "label": subject.label, "seeds": len(ours["seeds"]), self.group: group, self.option: value}
        columns["is_start"] = value is None and subject.row.id in starts
        half, over = intervals.half(subject.row.id)
        own = {"figure": subject.spec.score.test, "bleu": ours["bleu"], "half_width": half, "over": over, "signature": ours["signature"]}
        names = [name for name in (*subject.row.also, *subject.row.means) if name in ours]
        others = [{"figure": name, "bleu": ours[name], "half_width": None, "over": None, "signature": None} for name in names]
        return [columns | each for each in (own, *others)]

    def draw(self, records: Records, figure: Figure) -> None:
        """Draws one colour per group, one dash per figure, and a dashed line with a band per baseline.

        A baseline that others start from was trained for fewer updates; it is left out if there is another one.
        """
        points = [r for r in records if r[self.option] is not None]
        baselines = [r for r in records if r[self.option] is None]
        baselines = [r for r in baselines if not r["is_start"]] or baselines
        places = positions({r[self.option] for r in points})
        groups, names = list(group_by(points, self.group)), list(group_by(records, "figure"))
        span = max(places.values()) - min(places.values())
        (axes,) = figures.panels(figure, 1)
        rows = list(group_by(baselines, "row"))
        palette = figures.colours(len(groups) + len(rows))
        prefixes = {name: f"{name}, " if len(names) > 1 else "" for name in names}
        for (name, group), own in group_by(points, "figure", self.group).items():
            index, dash = groups.index(group), DASHES[names.index(name) % len(DASHES)]
            x, y, half = zip(*sorted((places[r[self.option]], r["bleu"], r["half_width"] or 0.0) for r in own), strict=True)
            label = prefixes[name] + (group if isinstance(group, str) else f"{self.group}: {group}")
            look: dict[str, Any] = {"yerr": half if any(half) else None, "color": palette[index], "marker": figures.marker(index)}
            axes.errorbar(figures.dodged(x, index, len(groups), span), y, **look, linestyle=dash, capsize=2, elinewidth=0.8, label=label)
        for r in baselines:
            colour, band = palette[len(groups) + rows.index(r["row"])], r["half_width"] or 0.0
            label = f"{prefixes[r['figure']]}{figures.short(figures.without_note(r['label']))}: {r['bleu']:.2f}"
            axes.axhline(r["bleu"], color=colour, linestyle="--", linewidth=1.0, label=label)
            axes.axhspan(r["bleu"] - band, r["bleu"] + band, color=colour, alpha=0.12, linewidth=0)
        axes.set_xticks(list(places.values()), [str(value) for value in places])
        over = list(dict.fromkeys(r["over"] for r in records if r["over"]))
        axes.set(xlabel=self.axis, ylabel="BLEU [%]", title=f"bars: 95 % interval over {' or '.join(over)}" if over else "")
        axes.grid(axis="y")
        figures.legend(figure, axes.get_legend_handles_labels()[0])


def sort_key(value: int | str | None) -> tuple[bool, int, str]:
    """Sorts numbers before words."""
    return (True, 0, value) if isinstance(value, str) else (False, value or 0, "")


def positions(values: set[int | str]) -> dict[int | str, float]:
    """Returns the position of each value on the axis. Words follow the last number, spaced like the last two numbers."""
    numbers = sorted(value for value in values if not isinstance(value, str))
    distance = numbers[-1] - numbers[-2] if len(numbers) > 1 else 1
    words = sorted(value for value in values if isinstance(value, str))
    last = numbers[-1] if numbers else 0
    return {n: float(n) for n in numbers} | {word: float(last + distance * i) for i, word in enumerate(words, start=1)}


def option_of(registry: str, component: Mapping[str, Any], option: str) -> Any:
    """Returns the value of a component's option, or its default."""
    if option in component:
        return component[option]
    return inspect.signature(REGISTRIES[registry].get(component["kind"])).parameters[option].default


def _missing_figures(subject: Subject, records: Records) -> list[str]:
    present = {r["figure"] for r in records if r["row"] == subject.row.id}
    missing = [name for name in (*subject.row.also, *subject.row.means) if name not in present]
    return [f"{subject.name}: no figure of {', '.join(missing)}; run the row again"] if missing else []
