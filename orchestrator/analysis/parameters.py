"""Parameters of rows in percent of those of their baselines, counted in the built models (Shen et al. 2018, sections 5.2 and 5.3).

The baseline of a row is the first one on the same corpus with as many encoder layers. What the paper says of a row stands under its address
without the paper in the `expect` of the analysis row (`table5/row5: 80`, in percent), else it is of the two printed sizes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from orchestrator.analysis.base import Analysis, Context, Subject
from orchestrator.analysis.style import COLOURS, short
from orchestrator.errors import UserError
from orchestrator.specs.table import number
from orchestrator.sweeps import parameters
from orchestrator.sweeps.plan import Data

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NEEDS_RUNS = False
COLUMNS = ["row", "label", "corpus", "layers", "src_vocab", "tgt_vocab", "params", "paper_params", "baseline", "params_pct", "paper_pct"]
SHOWN = ["label", "corpus", "params", "paper_params", "params_pct", "paper_pct"]


def analyse(context: Context) -> Analysis:
    """A record for each row. Vocabularies are those of the prepared corpus, else those that the spec declares; UserError with neither."""
    records: list[dict[str, Any]] = []
    lacking: list[str] = []
    for subject in context.subjects:
        sizes = _sizes(context, subject, lacking)
        if sizes is not None:
            records.append(_record(subject, sizes, records))
    if not records:
        raise UserError(*lacking)
    notes = [*lacking, "params_pct: in percent of the first row on the same corpus with as many encoder layers"]
    return Analysis("parameters", COLUMNS, records, lambda figure: _draw(figure, records), notes, summary(records), SHOWN)


def _sizes(context: Context, subject: Subject, lacking: list[str]) -> tuple[int, int] | None:
    sizes = Data(context.data_dir, context.cache_dir).vocabulary_sizes(subject.spec)
    if sizes is not None:
        return sizes
    try:
        prepared = context.prepared(subject)
    except UserError as error:
        lacking.append(f"{subject.row.id}: {error.lines[0]}; its vocabularies are not declared either")
        return None
    return prepared.src_size, prepared.tgt_size


def _record(subject: Subject, sizes: tuple[int, int], before: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    row, spec = subject.row, subject.spec
    corpus, layers = spec.data.corpus, spec.model.encoder.num_layers
    params, printed = parameters.params(spec, *sizes), number(row.expect.get("params"))
    base = next((r for r in before if (r["corpus"], r["layers"]) == (corpus, layers)), None)
    said = None if subject.asked is None else number(subject.asked.expect.get(row.id.partition("/")[2]))
    if said is None and base is not None and printed and base["paper_params"]:
        said = round(100.0 * printed / base["paper_params"], 1)
    return {
        "row": row.id,
        "label": subject.label,
        "corpus": corpus,
        "layers": layers,
        "src_vocab": sizes[0],
        "tgt_vocab": sizes[1],
        "params": params,
        "paper_params": printed,
        "baseline": None if base is None else base["row"],
        "params_pct": None if base is None else round(100.0 * params / base["params"], 2),
        "paper_pct": said,
    }


def summary(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """`DenseNMT-8L-2: 39% of the parameters of BASE-8L (paper 40%)`."""
    labels = {r["row"]: r["label"] for r in records}
    lines = []
    for r in records:
        if r["baseline"] is not None:
            paper = "" if r["paper_pct"] is None else f" (paper {r['paper_pct']:g}%)"
            lines.append(f"{r['label']}: {r['params_pct']:.1f}% of the parameters of {labels[r['baseline']]}{paper}")
    return lines


def _draw(figure: Figure, records: Sequence[Mapping[str, Any]]) -> None:
    """A bar a row, in millions; baselines grey, the share of the baseline and the paper's beside it."""
    figure.set_size_inches(8.0, 1.2 + 0.42 * len(records))
    axes = figure.add_subplot()
    places = range(len(records))
    colours = ["0.6" if r["baseline"] is None else COLOURS[0] for r in records]
    axes.barh(places, [r["params"] / 1e6 for r in records], color=colours, height=0.65)
    for place, r in zip(places, records, strict=True):
        share = "" if r["params_pct"] is None else f", {r['params_pct']:.0f}%"
        paper = "" if r["paper_pct"] is None else f" (paper {r['paper_pct']:g}%)"
        axes.text(r["params"] / 1e6, place, f" {r['params'] / 1e6:.3g}M{share}{paper}", va="center", fontsize=8)
    axes.set_yticks(places, [short(r["label"], 48) for r in records])
    axes.invert_yaxis()
    axes.set_xlim(0.0, 1.45 * max(r["params"] for r in records) / 1e6)
    axes.set_title("Parameters, and percent of the baseline's")
    axes.set_xlabel("parameters [millions]; grey: the baseline of those below it")
