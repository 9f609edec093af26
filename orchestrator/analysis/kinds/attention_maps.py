"""Cross-attention of the top decoder layer, averaged over its heads, for chosen sentences (Wei et al. 2020, Figs. 4 and 6).

The decoder is teacher forced on the row's own translation. Position t is labelled with the token it predicts; the last one predicts EOS.
If a layer attends to several memories, the map shows the attention over the encoder's states, without the gate (Att_h).

Shapes: T target positions, S source positions (EOS last on both sides), H heads.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor, nn

from models.attention import MultiHeadAttention
from models.transformer import Transformer
from orchestrator.analysis import figures
from orchestrator.analysis.base import Analysis, AnalysisContext, Records, Subject, group_by
from orchestrator.analysis.registry import register
from orchestrator.analysis.subwords import END, pieces
from orchestrator.decoding.beam import BOS
from orchestrator.decoding.translate import pad
from orchestrator.errors import UserError

COLUMNS = ["row", "label", "seed", "sentence", "position", "token", "source_position", "source_token", "weight"]
MAX_TOKENS = 40
CELL = 0.21
"""Inches per token."""


@register("attention-maps", options={"sentences": "0,1,2"}, needs_weights=True)
def analyse(context: AnalysisContext) -> Analysis:
    """Returns one record per row, sentence (from 0), target and source position. The weights of a target position sum to 1.

    Raises UserError for a sentence that does not exist, or if no row has multi-head cross-attention.
    """
    sentences = list(dict.fromkeys(context.numbers("sentences")))
    records: Records = []
    notes: list[str] = []
    for subject in context.subjects:
        records += analyse_row(context, subject, sentences, notes)
    if not records:
        raise UserError(*(notes or ["attention-maps: found no sentence with words"]))
    return Analysis("attention-maps", COLUMNS, records, partial(draw, records), notes, summary(records))


def analyse_row(context: AnalysisContext, subject: Subject, sentences: Sequence[int], notes: list[str]) -> Records:
    prepared, texts = context.prepared(subject), context.decoded(subject)["hypotheses"]
    if bad := [i for i in sentences if i >= len(texts)]:
        raise UserError(f"--option sentences: found {bad[0]}; expected numbers below {len(texts)}, the sentences of the test set")
    model = context.model(subject)
    attention = top_cross_attention(model)
    if attention is None:
        notes.append(f"{subject.row.id}: its top decoder layer has no multi-head attention to the source; left out")
        return []
    lines = prepared.sources(subject.spec.score.test)
    sources, targets = prepared.encode([lines[i] for i in sentences]), prepared.encode_text([texts[i] for i in sentences], "tgt")
    records: Records = []
    for i, source, target in zip(sentences, sources, targets, strict=True):
        if not source:
            notes.append(f"sentence {i} is empty")
            continue
        if prepared.decode([target])[0] != texts[i]:
            notes.append(f"{subject.row.id}: its translation of sentence {i} is not the same text once cut into subwords again")
        words, tokens = [*pieces(prepared, source, "src"), END], [*pieces(prepared, target), END]
        for t, (token, weights) in enumerate(zip(tokens, attention_map(model, attention, source, target), strict=True)):
            position = subject.columns | {"sentence": i, "position": t, "token": token}
            records += [
                {**position, "source_position": s, "source_token": word, "weight": round(float(weight), 6)}
                for s, (word, weight) in enumerate(zip(words, weights, strict=True))
            ]
    return records


def top_cross_attention(model: Transformer) -> MultiHeadAttention | None:
    """Returns the top decoder layer's attention over the encoder's states, or None: `attention` of the cross-attention, else its first."""
    cross = getattr(model.decoder.layers[-1], "cross_attention", None)
    if not isinstance(cross, nn.Module):
        return None
    own = getattr(cross, "attention", None)
    if isinstance(own, MultiHeadAttention):
        return own
    return next((module for module in cross.modules() if isinstance(module, MultiHeadAttention)), None)


@torch.no_grad()
def attention_map(model: Transformer, attention: nn.Module, source: Sequence[int], target: Sequence[int]) -> Tensor:
    """Returns weights [T, S], averaged over heads. Target position t reads BOS and the t tokens before it."""
    trace: list[tuple[nn.Module, Tensor]] = []
    model.decode(torch.tensor([[BOS, *target]]), model.encode(pad([source])), trace=trace)
    weights_BHTS = next(weights for module, weights in trace if module is attention)
    return weights_BHTS[0].mean(0)


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
    """Draws heat maps on one scale, a line per sentence and a column per row, source tokens left to right, at most MAX_TOKENS of each."""
    maps = group_by(records, "sentence", "row", "seed")
    sentences, rows = list(group_by(records, "sentence")), list(group_by(records, "row", "seed"))
    heights = [1.3 + CELL * max(_size(m, "position") for key, m in maps.items() if key[0] == s) for s in sentences]
    widths = [1.1 + CELL * max(_size(m, "source_position") for key, m in maps.items() if key[1:] == row) for row in rows]
    figure.set_size_inches(sum(widths) + 0.9, sum(heights) + 0.3)
    panels = figure.subplots(len(sentences), len(rows), squeeze=False, width_ratios=widths, height_ratios=heights)
    high = max(r["weight"] for r in records)
    image: Any = None
    for line, sentence in zip(panels, sentences, strict=True):
        for axes, row in zip(line, rows, strict=True):
            if (sentence, *row) in maps:
                image = _draw_map(axes, maps[sentence, *row], high)
            else:
                axes.set_axis_off()
    figure.colorbar(image, ax=panels, label="attention weight, mean over heads", fraction=0.03, aspect=40)


def _size(records: Records, name: str) -> int:
    return int(min(MAX_TOKENS, max(r[name] for r in records) + 1))


def _draw_map(axes: Axes, records: Records, high: float) -> Any:
    lines, columns = _size(records, "position"), _size(records, "source_position")
    weight = {(r["position"], r["source_position"]): r["weight"] for r in records}
    targets = {r["position"]: r["token"] for r in records}
    sources = {r["source_position"]: r["source_token"] for r in records}
    image = figures.heat_map(axes, [[weight[t, s] for s in range(columns)] for t in range(lines)], 0.0, high)
    axes.set_xticks(range(columns), [figures.short(sources[s], 14) for s in range(columns)], rotation=90, fontsize=7)
    axes.set_yticks(range(lines), [figures.short(targets[t], 14) for t in range(lines)], fontsize=7)
    axes.xaxis.tick_top()
    cut = f", first {MAX_TOKENS} tokens" if max(len(targets), len(sources)) > MAX_TOKENS else ""
    axes.set_title(f"{figures.short(records[0]['label'], 30)}: sentence {records[0]['sentence']}{cut}", fontsize=8)
    return image
