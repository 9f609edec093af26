"""BLEU against the number of hops of layer self-attention (Wang et al. 2018, Fig. 3).

Rows without `mlrf-self-attention` are baselines: dashed lines. Besides the row's own score, every figure of its `also` and `means`.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from models.registry import AGGREGATIONS
from orchestrator.analysis import style
from orchestrator.analysis.base import Analysis, Context, Subject
from orchestrator.errors import UserError
from orchestrator.plan import Data
from orchestrator.report.figures import figures
from orchestrator.report.find import Finder

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from orchestrator.spec import ModelSpec

KIND = "mlrf-self-attention"
COLUMNS = ["row", "label", "seed", "sides", "hops", "figure", "bleu", "signature"]


def analyse(context: Context) -> Analysis:
    """A record for each row and figure; `hops` is null for a baseline. UserError where no row has such an aggregation."""
    finder = Finder(context.ledger, Data(context.data_dir))
    records: list[dict[str, Any]] = []
    for subject in context.subjects:
        records += of_row(subject, finder)
    if all(record["hops"] is None for record in records):
        raise UserError(f"hops: found no row with aggregation {KIND}; expected some with different n_hop")
    records.sort(key=lambda r: (r["hops"] is not None, r["sides"], r["hops"] or 0))
    notes = [line for subject in context.subjects for line in _missing(subject, records)]
    if len({r["hops"] for r in records if r["hops"] is not None}) == 1:
        notes.append("only one number of hops is there: nothing to compare")
    if all(record["hops"] is not None for record in records):
        notes.append("no baseline among the rows; name one beside them, e.g. mlrf2018/table2/row9")
    signatures = {(r["figure"], r["signature"]) for r in records if r["signature"]}
    if len(signatures) > len({figure for figure, _ in signatures}):
        notes.append("rows are scored differently: see signature")
    return Analysis("hops", COLUMNS, records, partial(draw, records), notes, shown=COLUMNS[:-1])


def of_row(subject: Subject, finder: Finder) -> list[dict[str, Any]]:
    """The figures of one row at its seed: its own test set, then those of `also` and `means`."""
    outcome = next((o for o in finder.outcomes(subject.row, [subject.spec.seed]) if o.seed == subject.spec.seed), None)
    if outcome is None or outcome.bleu is None:
        return []
    hops = hops_of(subject.spec.model)
    sides = "both" if len(hops) > 1 else next(iter(hops), "none")
    about = {"row": subject.row.id, "label": subject.label, "seed": subject.spec.seed, "sides": sides}
    about |= {"hops": max(hops.values(), default=None)}
    own = about | {"figure": subject.spec.score.test, "bleu": round(outcome.bleu, 4), "signature": outcome.signature}
    found = figures(subject.row, [outcome]) or {}
    others = {name: found[name] for name in (*subject.row.also, *subject.row.means) if name in found}
    return [own, *(about | {"figure": name, "bleu": bleu, "signature": None} for name, bleu in others.items())]


def _missing(subject: Subject, records: Sequence[Mapping[str, Any]]) -> list[str]:
    """A line where a figure that the row promises has no record."""
    known = {r["figure"] for r in records if r["row"] == subject.row.id}
    lacking = [name for name in (*subject.row.also, *subject.row.means) if name not in known]
    return [f"{subject.row.id} seed {subject.spec.seed}: no figure of {', '.join(lacking)}; run the row again"] if lacking else []


def hops_of(model: ModelSpec) -> dict[str, int]:
    """Side -> n_hop of its layer self-attention, written out or by default; empty for a baseline."""
    default = inspect.signature(AGGREGATIONS.get(KIND)).parameters["n_hop"].default
    sides = (("encoder", model.encoder.aggregation), ("decoder", model.decoder.aggregation))
    return {side: int(component.get("n_hop", default)) for side, component in sides if component["kind"] == KIND}


def draw(records: Sequence[Mapping[str, Any]], figure: Figure) -> None:
    """A line for each figure and placement of the fusion, a dashed line for each baseline of that figure."""
    axes = figure.subplots()
    names = list(dict.fromkeys(r["figure"] for r in records))
    sides = list(dict.fromkeys(r["sides"] for r in records if r["hops"] is not None))
    for index, name in enumerate(names):
        for mark, side in enumerate(sides):
            own = sorted((r["hops"], r["bleu"]) for r in records if r["figure"] == name and r["sides"] == side and r["hops"] is not None)
            if own:
                x, y = zip(*own, strict=True)
                axes.plot(x, y, color=style.colour(index), marker=style.marker(mark), label=f"{name}, fusion in {_place(side)}")
        for base, r in enumerate(r for r in records if r["figure"] == name and r["hops"] is None):
            label = f"{name}, {style.short(r['label'])}"
            axes.axhline(r["bleu"], color=style.colour(index), linestyle=("--", ":", "-.")[base % 3], linewidth=1.2, label=label)
    axes.set_xticks(sorted({r["hops"] for r in records if r["hops"] is not None}))
    axes.set_xlabel("number of hops")
    axes.set_ylabel("BLEU [%]")
    axes.set_title("BLEU by number of hops (Wang et al. 2018, Fig. 3)")
    axes.grid(axis="y", alpha=0.3)
    style.from_zero(axes)
    style.legend(figure, axes)


def _place(side: str) -> str:
    return "both stacks" if side == "both" else f"the {side}"
