"""BLEU as a function of one option of a component: one point per row, one line per group of rows, baselines (without the component) dashed.

The figures of a row are its own score and those of its `also` and `means`.
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
from orchestrator.errors import UserError
from orchestrator.report.figures import figures as figures_of
from orchestrator.report.find import Finder
from orchestrator.specs.schema import ModelSpec
from orchestrator.sweeps.plan import Data

Point = tuple[Any, int | str]
"""(group, value of the option). A value that is not a number, such as J, comes last on the axis."""


@dataclass(frozen=True)
class OptionCurve:
    """An analysis of one option. `option` and `group` name the columns for its value and for the group of rows that forms a line.

    kind: the kind of analysis. point: maps a model to its point, None for a baseline. no_group: group of the baselines. component, varied,
    example: words for messages. axis, title, legend: texts of the figure.
    """

    kind: str
    option: str
    group: str
    no_group: str | None
    point: Callable[[ModelSpec], Point | None]
    component: str
    varied: str
    axis: str
    title: str
    legend: Callable[[Any], str]
    example: str

    def analyse(self, context: AnalysisContext) -> Analysis:
        """Returns one record per row and figure; the option is null for a baseline. Raises UserError if no row has the component."""
        finder = Finder(context.ledger, Data(context.data_dir))
        records = [record for subject in context.subjects for record in self._analyse_row(subject, finder)]
        values = {r[self.option] for r in records if r[self.option] is not None}
        if not values:
            raise UserError(f"{self.kind}: found no row with {self.component}; expected some with different {self.varied}")
        records.sort(key=lambda r: (r[self.option] is not None, sort_key(r[self.group]), sort_key(r[self.option])))
        notes = [line for subject in context.subjects for line in _missing_figures(subject, records)]
        if len(values) == 1:
            notes.append(f"only one {self.axis} is there: nothing to compare")
        if all(record[self.option] is not None for record in records):
            notes.append(f"no baseline among the rows; name one beside them, e.g. {self.example}")
        signatures = {(r["figure"], r["signature"]) for r in records if r["signature"]}
        if len(signatures) > len({figure for figure, _ in signatures}):
            notes.append("rows are scored differently: see signature")
        columns = ["row", "label", "seed", self.group, self.option, "figure", "bleu", "signature"]
        return Analysis(self.kind, columns, records, partial(self.draw, records), notes, shown=columns[:-1])

    def _analyse_row(self, subject: Subject, finder: Finder) -> Records:
        """Returns the figures of one row with one seed: its own test set, then those of `also` and `means`."""
        outcome = next((o for o in finder.outcomes(subject.row, [subject.spec.seed]) if o.seed == subject.spec.seed), None)
        if outcome is None or outcome.bleu is None:
            return []
        group, value = self.point(subject.spec.model) or (self.no_group, None)
        columns = subject.columns | {self.group: group, self.option: value}
        own = columns | {"figure": subject.spec.score.test, "bleu": round(outcome.bleu, 4), "signature": outcome.signature}
        others = figures_of(subject.row, [outcome]) or {}
        names = [name for name in (*subject.row.also, *subject.row.means) if name in others]
        return [own, *(columns | {"figure": name, "bleu": others[name], "signature": None} for name in names)]

    def draw(self, records: Records, figure: Figure) -> None:
        """Draws one colour per figure, one marker per group and a dashed line per baseline."""
        axes = figure.subplots()
        points = [r for r in records if r[self.option] is not None]
        places = positions({r[self.option] for r in points})
        groups = list(group_by(points, self.group))
        for index, name in enumerate(group_by(records, "figure")):
            colour = figures.colour(index)
            for mark, group in enumerate(groups):
                own = sorted((places[r[self.option]], r["bleu"]) for r in points if r["figure"] == name and r[self.group] == group)
                if own:
                    axes.plot(*zip(*own, strict=True), color=colour, marker=figures.marker(mark), label=f"{name}, {self.legend(group)}")
            for base, r in enumerate(r for r in records if r["figure"] == name and r[self.option] is None):
                label = f"{name}, {figures.short(r['label'])}"
                axes.axhline(r["bleu"], color=colour, linestyle=("--", ":", "-.")[base % 3], linewidth=1.2, label=label)
        axes.set_xticks(list(places.values()), [str(value) for value in places])
        axes.set(xlabel=self.axis, ylabel="BLEU [%]", title=self.title)
        axes.grid(axis="y", alpha=0.3)
        figures.clip_at_zero(axes)
        figures.legend(figure, axes)


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
