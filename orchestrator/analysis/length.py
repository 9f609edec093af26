"""BLEU by length of the source sentence (Dou et al. 2018, Fig. 4).

Lengths are words as the row's corpus is tokenised, before subwords. The score of a group is corpus-level, by the metric of the row's
`score` section, of the sentences of the group alone; groups are a < words <= b. The paper names one edge, 45; the others are assumed.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from orchestrator.analysis import style
from orchestrator.analysis.base import Analysis, Context, Subject, numbers
from orchestrator.errors import UserError
from orchestrator.scoring.scores import score

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from orchestrator.data.store import Prepared

OPTIONS = {"edges": "15,30,45"}
COLUMNS = ["row", "label", "seed", "test", "group", "sentences", "bleu", "metric", "delta"]


def analyse(context: Context) -> Analysis:
    """A record for each row and group. delta: BLEU minus the first row's of the same group. UserError for edges that do not increase."""
    edges = numbers("edges", context.options["edges"], least=1)
    if any(a >= b for a, b in pairwise(edges)):
        raise UserError(f"--option edges={context.options['edges']}: found edges that do not increase; expected e.g. edges=15,30,45")
    records: list[dict[str, Any]] = []
    for subject in context.subjects:
        records += of_row(context, subject, edges)
    first = {r["group"]: r["bleu"] for r in records if r["row"] == context.subjects[0].row.id}
    for record in records:
        known = record["bleu"] is not None and first[record["group"]] is not None
        record["delta"] = round(record["bleu"] - first[record["group"]], 4) if known else None
    return Analysis("length", COLUMNS, records, partial(draw, records), notes(records, context))


def of_row(context: Context, subject: Subject, edges: Sequence[int]) -> list[dict[str, Any]]:
    """The groups of one row, then all of its test set."""
    prepared, decoded, spec = context.prepared(subject), context.decoded(subject), subject.spec.score
    lengths = [len(line.split()) for line in prepared.tokenise(prepared.sources(spec.test), "src")]
    texts, tokens = decoded["hypotheses"], decoded["tokens"]
    if len(texts) != len(lengths):
        raise UserError(f"{subject.row.id}: found {len(texts)} translations of {len(lengths)} sentences of {spec.test}")
    found = []
    for name, chosen in [*grouped(lengths, edges), ("all", list(range(len(lengths))))]:
        bleu = None
        if chosen:
            part = Part(prepared, chosen)
            bleu = round(score([texts[i] for i in chosen], [tokens[i] for i in chosen], part, spec.test, spec)["bleu"], 4)
        about = {"row": subject.row.id, "label": subject.label, "seed": subject.spec.seed, "test": spec.test}
        found.append(about | {"group": name, "sentences": len(chosen), "bleu": bleu, "metric": spec.metric})
    return found


def grouped(lengths: Sequence[int], edges: Sequence[int]) -> list[tuple[str, list[int]]]:
    """(name, indices of its sentences) of each group: up to the first edge, between two, above the last."""
    lows, highs = [None, *edges], [*edges, None]
    result = []
    for low, high in zip(lows, highs, strict=True):
        name = f"<={high}" if low is None else f">{low}" if high is None else f"{low + 1}-{high}"
        result.append((name, [i for i, n in enumerate(lengths) if (low is None or n > low) and (high is None or n <= high)]))
    return result


class Part:
    """Some sentences of a test set, as scoring asks for them."""

    def __init__(self, prepared: Prepared, chosen: Sequence[int]) -> None:
        self.prepared, self.chosen = prepared, chosen
        self.target_language = prepared.target_language

    def references(self, split: str) -> list[list[str]]:
        return [[stream[i] for i in self.chosen] for stream in self.prepared.references(split)]

    def reference_text(self, split: str) -> list[list[str]]:
        return [[stream[i] for i in self.chosen] for stream in self.prepared.reference_text(split)]

    def tokenise(self, lines: list[str], side: Any) -> list[str]:
        return self.prepared.tokenise(lines, side)


def notes(records: Sequence[dict[str, Any]], context: Context) -> list[str]:
    said = ["groups by source words before subwords; the paper gives the edge 45 alone"]
    small = {r["group"]: r["sentences"] for r in records if r["sentences"] < 100 and r["group"] != "all"}
    if small:
        said.append(f"few sentences: {', '.join(f'{count} of {group}' for group, count in small.items())}; their BLEU says little")
    if len({r["test"] for r in records}) > 1 or len({s.spec.data.corpus for s in context.subjects}) > 1:
        said.append("rows have different test sets")
    if len({r["metric"] for r in records}) > 1:
        said.append(f"rows are scored differently: {', '.join(sorted({r['metric'] for r in records}))}")
    return said


def draw(records: Sequence[dict[str, Any]], figure: Figure) -> None:
    """BLEU by group, a line a row; the number of sentences stands below each group."""
    axes = figure.subplots()
    rows = dict.fromkeys((r["row"], r["seed"]) for r in records)
    groups = [g for g in dict.fromkeys(r["group"] for r in records) if g != "all"]
    for index, row in enumerate(rows):
        own = {r["group"]: r for r in records if (r["row"], r["seed"]) == row}
        heights = [float("nan") if own[g]["bleu"] is None else own[g]["bleu"] for g in groups]
        label = style.short(own["all"]["label"]) + f" (all: {own['all']['bleu']:.2f})"
        axes.plot(range(len(groups)), heights, marker=style.marker(index), color=style.colour(index), label=label)
    counts = {r["group"]: r["sentences"] for r in reversed(records)}
    axes.set_xticks(
        range(len(groups)), [f"{g.replace('<=', '≤ ').replace('>', '> ').replace('-', '–')}\n{counts[g]} sent." for g in groups]
    )
    axes.set_xlabel("source length [words before subwords]")
    axes.set_ylabel(f"BLEU [%], {records[0]['metric']}, {records[0]['test']}")
    axes.set_title("BLEU by source length (Dou et al. 2018, Fig. 4)")
    axes.grid(axis="y", alpha=0.3)
    axes.set_xlim(-0.5, len(groups) - 0.5)
    style.from_zero(axes)
    style.legend(figure, axes)
