"""BLEU by length of the source sentence (Dou et al. 2018, Fig. 4).

Lengths are in words of the row's own tokenisation, before subword segmentation. The score of a group is the corpus-level score of its
sentences by the metric of the row's `score` section; groups are a < words <= b. The paper names one edge, 45; the others are assumed.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise

from matplotlib.figure import Figure

from orchestrator.analysis import figures
from orchestrator.analysis.base import Analysis, AnalysisContext, Records, Subject, by_row
from orchestrator.analysis.registry import register
from orchestrator.analysis.translations import part_bleu
from orchestrator.errors import UserError


@register("length", options={"edges": "15,30,45"})
def analyse(context: AnalysisContext) -> Analysis:
    """Returns one record per row and group; `delta` is BLEU minus the first row's. Raises UserError for edges that do not increase."""
    edges = context.numbers("edges", least=1)
    if any(a >= b for a, b in pairwise(edges)):
        raise UserError(f"--option edges={context.options['edges']}: found edges that do not increase; expected e.g. edges=15,30,45")
    records = [record for subject in context.subjects for record in analyse_row(context, subject, edges)]
    first = {r["group"]: r["bleu"] for r in records if r["row"] == context.subjects[0].row.id}
    for record in records:
        base = first[record["group"]]
        record["delta"] = None if record["bleu"] is None or base is None else round(record["bleu"] - base, 4)
    return Analysis("length", records, partial(draw, records), notes_of(records, context), width=figures.width_of(len(context.subjects)))


def analyse_row(context: AnalysisContext, subject: Subject, edges: Sequence[int]) -> Records:
    """Returns the records of one row: its groups, then the whole test set."""
    prepared, decoded, score = context.prepared(subject), context.decoded(subject), subject.spec.score
    lengths = [len(line.split()) for line in prepared.tokenise(prepared.sources(score.test), "src")]
    if len(decoded["hypotheses"]) != len(lengths):
        found = len(decoded["hypotheses"])
        raise UserError(f"{subject.row.id}: found {found} translations of {len(lengths)} sentences of {score.test}")
    records: Records = []
    for name, indices in [*grouped(lengths, edges), ("all", list(range(len(lengths))))]:
        record = subject.columns | {"test": score.test, "group": name, "sentences": len(indices)}
        records.append(record | {"bleu": part_bleu(decoded, prepared, indices, subject.spec), "metric": score.metric})
    return records


def grouped(lengths: Sequence[int], edges: Sequence[int]) -> list[tuple[str, list[int]]]:
    """Returns (name, sentence indices) of each group: up to the first edge, between two edges, above the last."""
    groups = []
    for low, high in zip([None, *edges], [*edges, None], strict=True):
        name = f"<={high}" if low is None else f">{low}" if high is None else f"{low + 1}-{high}"
        groups.append((name, [i for i, n in enumerate(lengths) if (low is None or n > low) and (high is None or n <= high)]))
    return groups


def notes_of(records: Records, context: AnalysisContext) -> list[str]:
    notes = ["groups by source words before subwords; the paper gives the edge 45 alone"]
    small = {r["group"]: r["sentences"] for r in records if r["sentences"] < 100 and r["group"] != "all"}
    if small:
        notes.append(f"few sentences: {', '.join(f'{count} of {group}' for group, count in small.items())}; their BLEU says little")
    if len({(r["test"], r["metric"]) for r in records}) > 1 or len({s.spec.data.corpus for s in context.subjects}) > 1:
        notes.append("rows have different test sets or metrics")
    return notes


def draw(records: Records, figure: Figure) -> None:
    """Draws BLEU by group with one line per row; the number of sentences is below each group."""
    (axes,) = figures.panels(figure, 1)
    styles = figures.styles(records)
    groups = [g for g in dict.fromkeys(r["group"] for r in records) if g != "all"]
    groups = [g for g in groups if any(r["group"] == g and r["bleu"] is not None for r in records)]
    for key, row in by_row(records).items():
        own = {r["group"]: r for r in row}
        heights = [float("nan") if own[g]["bleu"] is None else own[g]["bleu"] for g in groups]
        axes.plot(range(len(groups)), heights, **styles[key].line(), label=f"{styles[key].name} (all: {own['all']['bleu']:.2f})")
    counts = {r["group"]: r["sentences"] for r in reversed(records)}
    names = [g.replace("<=", "≤ ").replace(">", "> ").replace("-", "–") for g in groups]
    axes.set_xticks(range(len(groups)), [f"{name}\n{counts[g]} sent." for name, g in zip(names, groups, strict=True)])
    axes.set(xlabel="source length [words before subwords]", ylabel=f"BLEU [%], {records[0]['metric']}, {records[0]['test']}")
    axes.grid(axis="y")
    axes.set_xlim(-0.5, len(groups) - 0.5)
    figures.legend(figure, axes.get_legend_handles_labels()[0])
