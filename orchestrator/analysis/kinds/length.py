"""BLEU by length of the source sentence (Dou et al. 2018, Fig. 4).

Lengths are in words of the row's own tokenisation, before subword segmentation. The score of a group is the corpus-level score of its
sentences by the metric of the row's `score` section; groups are a < words <= b. The paper names one edge, 45; the others are assumed.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from matplotlib.figure import Figure

from orchestrator.analysis import figures
from orchestrator.analysis.base import Analysis, AnalysisContext, Records, Subject, group_by, register
from orchestrator.analysis.translations import part_bleu
from orchestrator.errors import UserError


@register("length", options={"edges": "15,30,45"})
def analyse(context: AnalysisContext) -> Analysis:
    """Returns one record per row and group; `delta` is BLEU minus the first row's. Raises UserError for edges that do not increase."""
    edges = context.numbers("edges", least=1)
    if any(a >= b for a, b in pairwise(edges)):
        raise UserError(f"--option edges={context.options['edges']}: found edges that do not increase; expected e.g. edges=15,30,45")
    records = [record for subject in context.subjects for record in analyse_row(context, subject, edges)]
    for own in group_by(records, "group").values():
        base = own[0]["bleu"]
        for record in own:
            record["delta"] = None if record["bleu"] is None or base is None else round(record["bleu"] - base, 4)
    notes = ["groups by source words before subwords; the paper gives the edge 45 alone"]
    small = {r["group"]: r["sentences"] for r in records if r["sentences"] < 100 and r["group"] != "all"}
    if small:
        notes.append(f"few sentences: {', '.join(f'{count} of {group}' for group, count in small.items())}; their BLEU says little")
    if len({(r["test"], r["metric"]) for r in records}) > 1 or len({s.spec.data.corpus for s in context.subjects}) > 1:
        notes.append("rows have different test sets or metrics")
    return Analysis(records, draw, notes, width="column")


def analyse_row(context: AnalysisContext, subject: Subject, edges: Sequence[int]) -> Records:
    """Returns the records of one row: its groups, then the whole test set."""
    prepared, decoded, score = context.prepared(subject), context.decoded(subject), subject.spec.score
    lengths = [len(line.split()) for line in prepared.tokenise(prepared.sources(score.test), "src")]
    if (found := len(decoded["hypotheses"])) != len(lengths):
        raise UserError(f"{subject.row.id}: found {found} translations of {len(lengths)} sentences of {score.test}")
    records: Records = []
    for name, indices in [*grouped(lengths, edges), ("all", list(range(len(lengths))))]:
        record = subject.columns | {"test": score.test, "group": name, "sentences": len(indices)}
        records.append(record | {"bleu": part_bleu(decoded, prepared, indices, subject.spec), "metric": score.metric})
    return records


def grouped(lengths: Sequence[int], edges: Sequence[int]) -> list[tuple[str, list[int]]]:
    """Returns (name, sentence indices) of each group: up to the first edge, between two edges, above the last."""
    names = [f"<={edges[0]}", *(f"{low + 1}-{high}" for low, high in pairwise(edges)), f">{edges[-1]}"]
    bounds = pairwise([float("-inf"), *edges, float("inf")])
    return [(name, [i for i, n in enumerate(lengths) if low < n <= high]) for name, (low, high) in zip(names, bounds, strict=True)]


def draw(figure: Figure, records: Records) -> None:
    """Draws BLEU by group with one line per row; the number of sentences is below each group."""
    counts = {r["group"]: r["sentences"] for r in reversed(records)}
    names = {group: f"{group.replace('<=', '≤ ').replace('>', '> ')}\n{count} sent." for group, count in counts.items()}
    points = [r | {"place": names[r["group"]]} for r in records if r["group"] != "all" and r["bleu"] is not None]
    (axes,), _ = figures.curves(figure, {"": points}, "place", "bleu")
    axes.set(xlabel="source length [words before subwords]", ylabel=f"BLEU [%], {records[0]['metric']}, {records[0]['test']}")
