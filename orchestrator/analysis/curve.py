"""BLEU against one option of a component: a point for each row, a line for each group of rows, baselines dashed.

Rows without the component are the baselines. Besides a row's own score, every figure of its `also` and `means`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from models.registry import REGISTRIES
from orchestrator.analysis import style
from orchestrator.analysis.base import Analysis, Context, Subject
from orchestrator.errors import UserError
from orchestrator.report.figures import figures
from orchestrator.report.find import Finder
from orchestrator.sweeps.plan import Data

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from orchestrator.specs.schema import ModelSpec

Point = tuple[Any, int | str]
"""(group, value of the option); a value that is no number, such as J, comes last on the axis."""


@dataclass(frozen=True)
class Curve:
    """kind: of the analysis. option, group: columns of the option's value and of what a line has in common; `no_group` for a baseline.

    place: a model's point, None for a baseline. component: as messages call it. axis, title: of the figure. legend: a group in words.
    example: a row that may serve as baseline.
    """

    kind: str
    option: str
    group: str
    no_group: str | None
    place: Callable[[ModelSpec], Point | None]
    component: str
    varied: str
    axis: str
    title: str
    legend: Callable[[Any], str]
    example: str

    @property
    def columns(self) -> list[str]:
        return ["row", "label", "seed", self.group, self.option, "figure", "bleu", "signature"]

    def analyse(self, context: Context) -> Analysis:
        """A record for each row and figure; the option is null for a baseline. UserError where no row has the component."""
        finder = Finder(context.ledger, Data(context.data_dir))
        records: list[dict[str, Any]] = []
        for subject in context.subjects:
            records += self._of_row(subject, finder)
        if all(record[self.option] is None for record in records):
            raise UserError(f"{self.kind}: found no row with {self.component}; expected some with different {self.varied}")
        records.sort(key=lambda r: (r[self.option] is not None, order(r[self.group]), order(r[self.option])))
        notes = [line for subject in context.subjects for line in _missing(subject, records)]
        values = {r[self.option] for r in records if r[self.option] is not None}
        if len(values) == 1:
            notes.append(f"only one {self.axis} is there: nothing to compare")
        if all(record[self.option] is not None for record in records):
            notes.append(f"no baseline among the rows; name one beside them, e.g. {self.example}")
        signatures = {(r["figure"], r["signature"]) for r in records if r["signature"]}
        if len(signatures) > len({figure for figure, _ in signatures}):
            notes.append("rows are scored differently: see signature")
        return Analysis(self.kind, self.columns, records, partial(self.draw, records), notes, shown=self.columns[:-1])

    def _of_row(self, subject: Subject, finder: Finder) -> list[dict[str, Any]]:
        """The figures of one row at its seed: its own test set, then those of `also` and `means`."""
        outcome = next((o for o in finder.outcomes(subject.row, [subject.spec.seed]) if o.seed == subject.spec.seed), None)
        if outcome is None or outcome.bleu is None:
            return []
        group, value = self.place(subject.spec.model) or (self.no_group, None)
        about = {"row": subject.row.id, "label": subject.label, "seed": subject.spec.seed, self.group: group, self.option: value}
        own = about | {"figure": subject.spec.score.test, "bleu": round(outcome.bleu, 4), "signature": outcome.signature}
        found = figures(subject.row, [outcome]) or {}
        others = {name: found[name] for name in (*subject.row.also, *subject.row.means) if name in found}
        return [own, *(about | {"figure": name, "bleu": bleu, "signature": None} for name, bleu in others.items())]

    def draw(self, records: Sequence[Mapping[str, Any]], figure: Figure) -> None:
        """A line for each figure and group, a dashed line for each baseline of that figure."""
        axes = figure.subplots()
        points = [r for r in records if r[self.option] is not None]
        places = positions({r[self.option] for r in points})
        groups = list(dict.fromkeys(r[self.group] for r in points))
        for index, name in enumerate(dict.fromkeys(r["figure"] for r in records)):
            for mark, group in enumerate(groups):
                own = sorted((places[r[self.option]], r["bleu"]) for r in points if r["figure"] == name and r[self.group] == group)
                if own:
                    x, y = zip(*own, strict=True)
                    axes.plot(x, y, color=style.colour(index), marker=style.marker(mark), label=f"{name}, {self.legend(group)}")
            for base, r in enumerate(r for r in records if r["figure"] == name and r[self.option] is None):
                label = f"{name}, {style.short(r['label'])}"
                axes.axhline(r["bleu"], color=style.colour(index), linestyle=("--", ":", "-.")[base % 3], linewidth=1.2, label=label)
        axes.set_xticks(list(places.values()), [str(value) for value in places])
        axes.set_xlabel(self.axis)
        axes.set_ylabel("BLEU [%]")
        axes.set_title(self.title)
        axes.grid(axis="y", alpha=0.3)
        style.from_zero(axes)
        style.legend(figure, axes)


def order(value: int | str | None) -> tuple[bool, int, str]:
    """Sort key: numbers, then words."""
    return (True, 0, value) if isinstance(value, str) else (False, value or 0, "")


def positions(values: set[int | str]) -> dict[int | str, float]:
    """Where each value stands on the axis, in order: a number at itself, words behind the last one, as far apart as the last two are."""
    numbers = sorted(value for value in values if not isinstance(value, str))
    apart = numbers[-1] - numbers[-2] if len(numbers) > 1 else 1
    words = sorted(value for value in values if isinstance(value, str))
    last = numbers[-1] if numbers else 0
    return {n: float(n) for n in numbers} | {word: float(last + apart * i) for i, word in enumerate(words, start=1)}


def option_of(registry: str, component: Mapping[str, Any], option: str) -> Any:
    """An option as a component has it, written out or by default."""
    if option in component:
        return component[option]
    return inspect.signature(REGISTRIES[registry].get(component["kind"])).parameters[option].default


def _missing(subject: Subject, records: Sequence[Mapping[str, Any]]) -> list[str]:
    """A line where a figure that the row promises has no record."""
    known = {r["figure"] for r in records if r["row"] == subject.row.id}
    lacking = [name for name in (*subject.row.also, *subject.row.means) if name not in known]
    return [f"{subject.row.id} seed {subject.spec.seed}: no figure of {', '.join(lacking)}; run the row again"] if lacking else []
