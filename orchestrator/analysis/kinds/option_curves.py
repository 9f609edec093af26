"""BLEU against one option: one point per row, one line per group of rows, baselines (without the component) dashed.

hops: hops of layer self-attention (Wang et al. 2018, Fig. 3), one line per placement of the fusion.
steps: recurrent steps T of an attentive recurrent encoder (Hao et al. 2019, Fig. 5), one line per number of its layers (the paper has 1);
T = J, as many steps as the source has words, comes last.
depth: encoder layers, one line per method, the part of a row's label before the first comma (`DLCL, 6 layers`).

The figures of a row are its own score and those of its `also` and `means`, over its seeds. Bars are 95 % intervals of the mean score of a
single row; differences between rows have their own in `report.effects`. Two seeds or more: over seeds, with the variance that
`report.effects` pools. One seed: over sentences, by the bootstrap.
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure

from orchestrator.analysis import figures
from orchestrator.analysis.base import Analysis, AnalysisContext, Records, Subject, group_by, register
from orchestrator.errors import UserError
from orchestrator.report.effects import Effects
from orchestrator.report.figures import figures as figures_of
from orchestrator.report.find import SeedResult
from orchestrator.report.noise_floor import sentence_error
from orchestrator.scoring.significance.estimator import LEVEL, quantile

FUSION, RECURRENT = "mlrf-self-attention", "biarn"
DASHES = ("-", "-.", ":")
Point = tuple[Any, int | str]
"""(group, value of the option). A value that is not a number, such as J, comes last on the axis."""


def half_width(effects: Effects, row: str) -> tuple[float | None, str | None]:
    """Returns (half-width, what it is over), None where a row has no statistics of sentences: no translations, or no text of its corpus."""
    arm = effects.arms.get(row)
    if arm is None:
        return None, None
    spread = effects.spread(row)
    if spread is None or arm.k == 1:
        return round(quantile(1 - LEVEL / 2, math.inf) * sentence_error(arm), 4), "sentences"
    variance = spread.variance + effects.model(row).tau2  # a mean contains the seeds' common effects
    return round(quantile(1 - LEVEL / 2, spread.df) * math.sqrt(variance / arm.k), 4), "seeds"


@dataclass(frozen=True)
class OptionCurve:
    """A kind of analysis of one option. `option` and `group` name the columns for its value and for the group of rows that forms a line.

    point: subject -> its point, None for a baseline. component: what rows with the option have, for messages. axis: text of the figure.
    """

    kind: str
    option: str
    group: str
    point: Callable[[Subject], Point | None]
    component: str
    axis: str

    def analyse(self, context: AnalysisContext) -> Analysis:
        """Returns one record per row and figure; the option is null for a baseline. Raises UserError if no row has the component."""
        outcomes = {s.row.id: context.finder.outcomes(s.row, [s.spec.seed]) for s in context.subjects}
        effects = Effects([s.row for s in context.subjects], outcomes, context.finder.reader)
        starts = {s.spec.init_from for s in context.subjects if self.point(s) is not None}
        each = (self._analyse_row(subject, outcomes[subject.row.id], effects, starts) for subject in context.subjects)
        records = [record for own in each for record in own]
        values = {r[self.option] for r in records if r[self.option] is not None}
        if not values:
            raise UserError(f"{self.kind}: found no row with {self.component}; expected some with different {self.option}")
        groups, place = list(group_by(records, self.group)), positions(values)
        records.sort(key=lambda r: (r[self.option] is not None, groups.index(r[self.group]), place.get(r[self.option], 0)))
        notes = []
        for subject in context.subjects:
            present = {r["figure"] for r in records if r["row"] == subject.row.id}
            if present and (missing := [name for name in (*subject.row.also, *subject.row.means) if name not in present]):
                notes.append(f"{subject.name}: no figure of {', '.join(missing)}; run the row again")
        own = [r for r in records if r["signature"]]
        if len({r["signature"] for r in own}) > 1:
            notes.append("rows are scored differently: see signature")
        over = {r["over"] for r in own}
        if "sentences" in over:
            notes.append("an interval over sentences does not say what other seeds would give")
        if None in over:
            notes.append("rows without an interval: their records have no sentence statistics, as an earlier version wrote them")
        columns = ["row", "label", "seeds", self.group, self.option, "figure", "bleu", "half_width", "over"]
        return Analysis(records, self.draw, notes, shown=columns, width="column")

    def _analyse_row(self, subject: Subject, found: list[SeedResult], effects: Effects, starts: set[str | None]) -> Records:
        """Returns the figures of one row over its seeds: its own test set, then those of `also` and `means`."""
        ours = figures_of(subject.row, found)
        if ours is None or ours.bleu is None:
            return []
        group, value = self.point(subject) or (None, None)
        columns = {"row": subject.row.id, "label": subject.label, "seeds": len(ours.seeds), self.group: group, self.option: value}
        columns["is_start"] = value is None and subject.row.id in starts
        half, over = half_width(effects, subject.row.id)
        own = {"figure": subject.spec.score.test, "bleu": ours.bleu, "half_width": half, "over": over, "signature": ours.signature}
        others = [own | {"figure": n, "bleu": ours.scores[n]} for n in (*subject.row.also, *subject.row.means) if n in ours.scores]
        return [columns | own, *(columns | other | dict.fromkeys(("half_width", "over", "signature")) for other in others)]

    def draw(self, figure: Figure, records: Records) -> None:
        """Draws one colour per group, one dash per figure, and a dashed line with a band per baseline.

        A baseline that others start from was trained for fewer updates; it is left out if there is another one.
        """
        points = [r for r in records if r[self.option] is not None]
        baselines = [r for r in records if r[self.option] is None]
        baselines = [r for r in baselines if not r["is_start"]] or baselines
        places = positions({r[self.option] for r in points})
        groups, names, rows = list(group_by(points, self.group)), list(group_by(records, "figure")), list(group_by(baselines, "row"))
        span = max(places.values()) - min(places.values())
        (axes,) = figures.panels(figure, 1)
        palette = figures.colours(len(groups) + len(rows))
        prefixes = {name: f"{name}, " if len(names) > 1 else "" for name in names}
        for (name, group), own in group_by(points, "figure", self.group).items():
            index, dash = groups.index(group), DASHES[names.index(name) % len(DASHES)]
            # moved aside, so that bars of lines at one place do not cover each other
            aside = 0.012 * span * (index - (len(groups) - 1) / 2)
            x, y, half = zip(*sorted((places[r[self.option]] + aside, r["bleu"], r["half_width"] or 0.0) for r in own), strict=True)
            label = prefixes[name] + (group if isinstance(group, str) else f"{self.group}: {group}")
            mark = figures.MARKERS[index % len(figures.MARKERS)]
            look: dict[str, Any] = {"color": palette[index], "marker": mark, "linestyle": dash, "label": label}
            axes.errorbar(x, y, yerr=half if any(half) else None, capsize=2, elinewidth=0.8, **look)
        for r in baselines:
            colour, band = palette[len(groups) + rows.index(r["row"])], r["half_width"] or 0.0
            without_note = re.sub(r"\s*\([^()]*\)$", "", r["label"])  # such as `(control, not in the paper)`
            label = f"{prefixes[r['figure']]}{figures.short(without_note)}: {r['bleu']:.2f}"
            axes.axhline(r["bleu"], color=colour, linestyle="--", linewidth=1.0, label=label)
            axes.axhspan(r["bleu"] - band, r["bleu"] + band, color=colour, alpha=0.12, linewidth=0)
        axes.set_xticks(list(places.values()), [str(value) for value in places])
        over = list(dict.fromkeys(r["over"] for r in records if r["over"]))
        axes.set(xlabel=self.axis, ylabel="BLEU", title=f"bars: 95 % interval over {' or '.join(over)}" if over else "")
        axes.grid(axis="y")
        figures.legend(figure, axes.get_legend_handles_labels()[0])


def positions(values: set[int | str]) -> dict[int | str, float]:
    """Returns the position of each value on the axis. Words follow the last number, spaced like the last two numbers."""
    numbers = sorted(value for value in values if not isinstance(value, str))
    distance = numbers[-1] - numbers[-2] if len(numbers) > 1 else 1
    words = sorted(value for value in values if isinstance(value, str))
    last = numbers[-1] if numbers else 0
    return {n: float(n) for n in numbers} | {word: float(last + distance * i) for i, word in enumerate(words, start=1)}


def _by_hops(subject: Subject) -> Point | None:
    sides = {"encoder": subject.spec.model.encoder.aggregation, "decoder": subject.spec.model.decoder.aggregation}
    hops = {side: int(component["n_hop"]) for side, component in sides.items() if component["kind"] == FUSION}
    return ("both" if len(hops) > 1 else next(iter(hops)), max(hops.values())) if hops else None


def _by_steps(subject: Subject) -> Point | None:
    encoder = subject.spec.model.extra_encoder or {"kind": None}
    return (encoder["num_layers"], encoder["steps"]) if encoder["kind"] == RECURRENT else None


HOPS = OptionCurve("hops", "hops", "sides", _by_hops, f"aggregation {FUSION}", "number of hops")
STEPS = OptionCurve("steps", "steps", "layers", _by_steps, f"extra_encoder {RECURRENT}", "number of recurrent steps")
DEPTH = OptionCurve(
    "depth",
    "layers",
    "method",
    lambda of: (figures.model_of(of.label)[0], of.spec.model.encoder.num_layers),
    "an encoder",
    "encoder layers",
)
for curve in (HOPS, STEPS, DEPTH):
    register(curve.kind, over_seeds=True)(curve.analyse)
