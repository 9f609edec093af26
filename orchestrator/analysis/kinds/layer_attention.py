"""Attention of each hop of the decoder's layer self-attention over layers, by target token (Wang et al. 2018, Fig. 5).

The decoder is teacher forced on the row's own translation.

Shapes: T target positions, L states (layers, embeddings first), P hops.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor

from models.aggregations.mlrf import MlrfSelfAttention
from orchestrator.analysis import figures
from orchestrator.analysis.attention import attention, pairs_of, pieces
from orchestrator.analysis.base import Analysis, AnalysisContext, Records, Subject, group_by
from orchestrator.analysis.registry import register

MAX_TOKENS = 60
"""Tokens in the figure; the records have all."""


@register("layer-attention", options={"sentences": "0,1,2"}, needs_weights=True)
def analyse(context: AnalysisContext) -> Analysis:
    """Returns the weights for the chosen test sentences (from 0), then, as sentence `all`, their mean over all positions of the test set.

    Raises UserError for a sentence that does not exist, or if no row has such a decoder.
    """
    records, notes = context.each_row(partial(analyse_row, context))
    return Analysis("layer-attention", records, partial(draw, records), notes, summary(records))


def analyse_row(context: AnalysisContext, subject: Subject, notes: list[str]) -> Records:
    sentences = list(dict.fromkeys(context.numbers("sentences")))
    prepared, model = context.prepared(subject), context.model(subject)
    module = model.decoder.aggregation
    if not isinstance(module, MlrfSelfAttention):
        notes.append(f"{subject.row.id}: its decoder has no mlrf-self-attention; left out")
        return []
    sources, targets = pairs_of(context, subject, sentences, notes)
    total, positions = torch.zeros((), dtype=torch.float64), 0
    maps: dict[int, Tensor] = {}
    for i, a_TLP in attention(model, module, sources, targets):
        own = a_TLP[: len(targets[i]) + 1]
        total, positions = total + own.double().sum(0), positions + len(own)
        if i in sentences:
            maps[i] = own
    records: Records = []
    for i in (i for i in sentences if i in maps):
        for t, (token, a_LP) in enumerate(zip(pieces(prepared, targets[i]), maps[i], strict=True)):
            records += _weights(subject.columns | {"sentence": i, "position": t, "token": token}, a_LP, module.states.first)
    if positions:
        records += _weights(subject.columns | {"sentence": "all", "position": None, "token": None}, total / positions, module.states.first)
    return records


def _weights(columns: dict[str, Any], a_LP: Tensor, first: int) -> Records:
    """Returns one record per hop and layer of one position."""
    return [
        {**columns, "hop": p, "layer": f"l{l}", "weight": round(float(weight), 6)}
        for p, hop in enumerate(a_LP.unbind(-1), start=1)
        for l, weight in enumerate(hop, start=first)
    ]


def summary(records: Records) -> list[str]:
    """Returns a line per hop with its mean weights over the test set."""
    hops = group_by([r for r in records if r["sentence"] == "all"], "row", "seed", "hop")
    return [
        f"{row} seed {seed}: hop {hop} on average  " + "  ".join(f"{r['layer']} {r['weight']:.3f}" for r in own)
        for (row, seed, hop), own in hops.items()
    ]


def draw(records: Records, figure: Figure) -> None:
    """Draws a line per sentence with one map per hop, tokens from top to bottom and layers from left to right; the means come last."""
    grid = []
    for (label, sentence), own in group_by(records, "label", "sentence").items():
        name = f"{figures.short(label, 30)}: {'mean of the test set' if sentence == 'all' else f'sentence {sentence}'}"
        if sentence == "all":
            one = figures.HeatMap.of(own, name, "hop", "layer", "weight")
            texts = {(y, x): f"{value:.2f}" for y, line in enumerate(one.values) for x, value in enumerate(line)}
            grid.append([replace(one, texts=texts)])
        else:
            hops = [(f"{'' if n else name}\nhop {hop}", cells) for n, (hop, cells) in enumerate(group_by(own, "hop").items())]
            maps = [figures.HeatMap.of(cells, title, "position", "layer", "weight", ("token", "layer")) for title, cells in hops]
            grid.append([one.first(MAX_TOKENS) for one in maps])
    scale = (0.0, max(r["weight"] for r in records), "viridis")
    figures.heat_maps(figure, grid, ("layer", "target token or hop"), "weight", scale)
