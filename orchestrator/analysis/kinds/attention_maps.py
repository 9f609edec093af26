"""Cross-attention of the top decoder layer, averaged over its heads, for chosen sentences (Wei et al. 2020, Figs. 4 and 6).

The decoder is teacher forced on the row's own translation. If a layer attends to several memories, the map shows the attention over the
encoder's states, without the gate (Att_h).

Shapes: T target positions, S source positions (EOS last on both sides), H heads.
"""

from __future__ import annotations

import math
from functools import partial

from matplotlib.figure import Figure
from torch import nn

from models.attention import MultiHeadAttention
from models.transformer import Transformer
from orchestrator.analysis import figures
from orchestrator.analysis.attention import attention, pairs_of, pieces
from orchestrator.analysis.base import Analysis, AnalysisContext, Records, Subject, by_row, group_by
from orchestrator.analysis.registry import register

MAX_TOKENS = 40
"""Tokens of a side in the figure; the records have all."""


@register("attention-maps", options={"sentences": "0,1,2"}, needs_weights=True)
def analyse(context: AnalysisContext) -> Analysis:
    """Returns one record per row, sentence (from 0), target and source position. The weights of a target position sum to 1.

    Raises UserError for a sentence that does not exist, or if no row has multi-head cross-attention.
    """
    records, notes = context.each_row(partial(analyse_row, context))
    return Analysis("attention-maps", records, partial(draw, records), notes, summary(records))


def analyse_row(context: AnalysisContext, subject: Subject, notes: list[str]) -> Records:
    prepared, model, sentences = context.prepared(subject), context.model(subject), list(dict.fromkeys(context.numbers("sentences")))
    module = top_cross_attention(model)
    if module is None:
        notes.append(f"{subject.row.id}: its top decoder layer has no multi-head attention to the source; left out")
        return []
    sources, targets = pairs_of(context, subject, sentences, notes)
    notes += [f"sentence {i} is empty" for i in sentences if not sources[i]]
    chosen = [i for i in sentences if sources[i]]
    maps = {chosen[n]: a_HTS.mean(0) for n, a_HTS in attention(model, module, [sources[i] for i in chosen], [targets[i] for i in chosen])}
    return [
        subject.columns
        | {
            "sentence": i,
            "position": t,
            "token": token,
            "source_position": s,
            "source_token": word,
            "weight": round(float(maps[i][t, s]), 6),
        }
        for i in chosen
        for t, token in enumerate(pieces(prepared, targets[i]))
        for s, word in enumerate(pieces(prepared, sources[i], "src"))
    ]


def top_cross_attention(model: Transformer) -> MultiHeadAttention | None:
    """Returns the top decoder layer's attention over the encoder's states, or None: `attention` of the cross-attention, else its first."""
    cross = getattr(model.decoder.layers[-1], "cross_attention", None)
    if not isinstance(cross, nn.Module):
        return None
    own = getattr(cross, "attention", None)
    return next((module for module in (own, *cross.modules()) if isinstance(module, MultiHeadAttention)), None)


def summary(records: Records) -> list[str]:
    """Describes the sharpness of each map: the largest weight and the entropy, averaged over target positions."""
    lines = []
    for (row, seed, sentence), cells in group_by(records, "row", "seed", "sentence").items():
        positions = [[r["weight"] for r in own] for own in group_by(cells, "position").values()]
        largest = sum(max(weights) for weights in positions) / len(positions)
        entropy = sum(-sum(w * math.log(w) for w in weights if w > 0) for weights in positions) / len(positions)
        lines.append(f"{row} seed {seed} sentence {sentence}: mean of the largest weight {largest:.3f}, mean entropy {entropy:.3f} nats")
    return lines


def draw(records: Records, figure: Figure) -> None:
    """Draws heat maps on one scale, a line per sentence and a column per row, source tokens from left to right."""
    grid = []
    for sentence, own in group_by(records, "sentence").items():
        titles = [(f"{figures.short(cells[0]['label'], 30)}: sentence {sentence}", cells) for cells in by_row(own).values()]
        maps = [
            figures.HeatMap.of(cells, title, "position", "source_position", "weight", ("token", "source_token")) for title, cells in titles
        ]
        grid.append([one.first(MAX_TOKENS) for one in maps])
    scale = (0.0, max(r["weight"] for r in records), "viridis")
    figures.heat_maps(figure, grid, ("source token", "target token"), "attention weight, mean over heads", scale)
