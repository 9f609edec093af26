"""BLEU of groups of sentences of the test set, by the metric of the row's `score` section.

length: groups by length of the source (Dou et al. 2018, Fig. 4), in words of the row's own tokenisation, before subword segmentation;
a group is a < words <= b. The paper names one edge, 45; the others are assumed.

difficulty: quartiles (Wei et al. 2020, section 4.3, Eq. 14-15, Fig. 3). Snapshots of the first row, the baseline, score the sentences:

    score(x, y) = mean_k l_k + std_k l_k,    l_k = -log P_k(y | x) / (|y| + 1)

over its last K snapshots. l is per token (EOS included), because the quartiles that the authors released differ little
in length while a summed log-probability would sort by length. std divides by K (the paper does not say).
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Annotated

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from orchestrator.analysis import figures
from orchestrator.analysis.base import Analysis, AnalysisContext, Records, Split, Subject, group_by, register
from orchestrator.decoding.forced import reference_nll
from orchestrator.errors import UserError
from orchestrator.ledger.statistics import Floats
from orchestrator.report.effects import main_metric
from orchestrator.safe_text import log
from orchestrator.scoring.significance.sentence_statistics import TITLES, score_of
from orchestrator.specs.base import Rungs
from orchestrator.training.runtime import best_device

Groups = Iterable[tuple[str, list[int]]]
"""Name and sentence indices of each group."""
SNAPSHOTS = 20
"""K."""
QUARTILES = ("simple", "ordinary", "difficult", "challenging")


@register("length", options={"edges": (Annotated[Rungs, Split], [15, 30, 45])})
def length(context: AnalysisContext) -> Analysis:
    """Returns one record per row and group; `delta` is BLEU minus the first row's."""
    edges = context.options["edges"]
    records: Records = []
    for subject in context.subjects:
        prepared = context.prepared(subject)
        lengths = [len(line.split()) for line in prepared.tokenise(prepared.sources(subject.spec.score.test), "src")]
        records += bleu_of_groups(context, subject, grouped(lengths, edges))
    notes = ["groups by source words before subwords; the paper gives the edge 45 alone", *compared(records)]
    if len({(r["test"], r["metric"]) for r in records}) > 1 or len({s.spec.data.corpus for s in context.subjects}) > 1:
        notes.append("rows have different test sets or metrics")
    return Analysis(records, draw_length, notes, width="column")


@register("difficulty")
def difficulty(context: AnalysisContext) -> Analysis:
    """Returns one record per row and quartile, and one for all; `delta` is BLEU minus the first row's, `words` the sources' mean length.

    Rows with another test set are left out with a note. Raises UserError without snapshots of the first row.
    """
    scorer = context.subjects[0]
    paths = list(context.snapshots(scorer).values())[-SNAPSHOTS:]
    if not paths:
        again = f"train it with --set train.snapshots={SNAPSHOTS} (another key, so a run of its own)"
        raise UserError(f"{scorer.row.id}: found no snapshots of its weights; {again}")
    prepared, test = context.prepared(scorer), scorer.spec.score.test
    sources, scores = prepared.sources(test), _difficulty(context, scorer, paths)
    words = np.array([len(line.split()) for line in prepared.tokenise(sources, "src")])
    parts = list(zip(QUARTILES, quartiles(scores), strict=True))
    records: Records = []
    notes = [f"baseline: {scorer.row.id}, which scores the sentences too"]
    for subject in context.subjects:
        if context.prepared(subject).sources(subject.spec.score.test) != sources:
            notes.append(f"{subject.row.id}: its test set is not that of {scorer.row.id}; left out")
            continue
        for record, indices in zip(bleu_of_groups(context, subject, parts), [*(own for _, own in parts), range(len(scores))], strict=True):
            if len(indices):
                low, high = scores[indices].min(), scores[indices].max()
                record |= {"words": round(words[indices].mean(), 2), "score_low": round(low, 4), "score_high": round(high, 4)}
            records.append(record)
    if len(paths) < SNAPSHOTS:
        notes.append(f"{scorer.row.id} has {len(paths)} snapshots: difficulty is over K = {len(paths)}, not {SNAPSHOTS}")
    return Analysis(records, lambda figure, drawn: _draw(figure, drawn, "delta").set_ylabel("delta of BLEU"), notes + compared(records))


def bleu_of_groups(context: AnalysisContext, subject: Subject, groups: Groups) -> Records:
    """Returns one record per group and one for all sentences; BLEU (ROUGE-L for summaries) is None for an empty group.

    Raises UserError if the run has no statistics of its sentences.
    """
    spec, metric = subject.spec.score, main_metric(subject.row)
    counts, score = context.finder.reader.of(subject.keys).get(metric), score_of(metric, spec)
    if counts is None:
        raise UserError(f"{subject.name}: {context.ledger.root} has no sentence statistics of its {TITLES[metric]}")
    records: Records = []
    for name, indices in [*groups, ("all", list(range(len(counts))))]:
        record = subject.columns | {"test": spec.test, "group": name, "sentences": len(indices)}
        value = round(float(score(counts[indices].sum(0))), 4) if indices else None
        records.append(record | {"bleu": value, "metric": spec.metric})
    return records


def compared(records: Records) -> list[str]:
    """Adds `delta` to the records, BLEU minus the first row's; returns a note on small groups, if any."""
    for own in group_by(records, "group").values():
        base = own[0]["bleu"]
        for record in own:
            record["delta"] = None if record["bleu"] is None or base is None else round(record["bleu"] - base, 4)
    small = {r["group"]: r["sentences"] for r in records if r["sentences"] < 100 and r["group"] != "all"}
    few = ", ".join(f"{count} of {group}" for group, count in small.items())
    return [f"few sentences: {few}; their BLEU says little"] if small else []


def grouped(lengths: Sequence[int], edges: Sequence[int]) -> list[tuple[str, list[int]]]:
    """Returns (name, sentence indices) of each group: up to the first edge, between two edges, above the last."""
    names = [f"<={edges[0]}", *(f"{low + 1}-{high}" for low, high in pairwise(edges)), f">{edges[-1]}"]
    bounds = pairwise([float("-inf"), *edges, float("inf")])
    return [(name, [i for i, n in enumerate(lengths) if low < n <= high]) for name, (low, high) in zip(names, bounds, strict=True)]


def _difficulty(context: AnalysisContext, scorer: Subject, paths: Sequence[Path]) -> Floats:
    """Returns scores [N]: mean plus standard deviation over the snapshots of losses per token. UserError: a sentence is too long."""
    model, pairs = context.model(scorer).to(best_device()), context.prepared(scorer).pairs(scorer.spec.score.test)
    sources, targets = zip(*(pairs[i] for i in range(len(pairs))), strict=True)
    losses = []
    for path in paths:
        context.load_snapshot(scorer, path, model)
        if (found := reference_nll(model, sources, targets)) is None:
            test, most = scorer.spec.score.test, scorer.spec.model.max_positions
            raise UserError(f"{scorer.row.id}: {test} has a sentence beyond the learned positions; expected at most {most} with EOS")
        total, tokens = np.array(found).T
        losses.append(total / tokens)
        log(f"{scorer.name}: {len(losses)} of {len(paths)} snapshots")
    scores: Floats = np.mean(losses, axis=0) + np.std(losses, axis=0)
    return scores


def quartiles(scores: Floats) -> list[list[int]]:
    """Splits indices into four lists by increasing score (stable); sizes differ by at most one."""
    return [sorted(part.tolist()) for part in np.array_split(np.argsort(scores, kind="stable"), len(QUARTILES))]


def draw_length(figure: Figure, records: Records) -> None:
    axes = _draw(figure, records, "bleu")
    axes.set(xlabel="source length [words before subwords]", ylabel=f"BLEU, {records[0]['metric']}, {records[0]['test']}")


def _draw(figure: Figure, records: Records, value: str) -> Axes:
    counts = {r["group"]: r["sentences"] for r in reversed(records)}
    names = {group: f"{group.replace('<=', '≤ ').replace('>', '> ')}\n{count} sent." for group, count in counts.items()}
    points = [r | {"place": names[r["group"]]} for r in records if r["group"] != "all" and r[value] is not None]
    (axes,), _ = figures.curves(figure, {"": points}, "place", value)
    return axes
