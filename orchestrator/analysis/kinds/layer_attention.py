"""Attention of each hop of the decoder's layer self-attention over layers, by target token (Wang et al. 2018, Fig. 5).

The decoder is teacher forced on the row's own translation. Position t is labelled with the token it predicts; the last one predicts EOS.
The ids of a translation are encoded from its text; a note counts the translations that do not decode to the same text.

Shapes: B sentences, T target positions, L states (layers, embeddings first), P hops.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import torch
from matplotlib.figure import Figure, SubFigure
from torch import Tensor

from models.aggregations.mlrf_self_attention import MlrfSelfAttention
from models.transformer import PAD, Transformer
from orchestrator.analysis import figures
from orchestrator.analysis.base import Analysis, AnalysisContext, Records, Subject, group_by
from orchestrator.analysis.registry import register
from orchestrator.analysis.subwords import END, pieces
from orchestrator.decoding.beam import BOS
from orchestrator.decoding.translate import batches, pad
from orchestrator.errors import UserError

COLUMNS = ["row", "label", "seed", "sentence", "position", "token", "hop", "layer", "weight"]
MAX_TOKENS = 60
CELL = 0.19
"""Inches per token."""


@register("layer-attention", options={"sentences": "0,1,2"}, needs_weights=True)
def analyse(context: AnalysisContext) -> Analysis:
    """Returns the weights for the chosen test sentences (from 0), then, as sentence `all`, their mean over all positions of the test set.

    Raises UserError for a sentence that does not exist, or if no row has such a decoder.
    """
    sentences = list(dict.fromkeys(context.numbers("sentences")))
    records: Records = []
    notes: list[str] = []
    for subject in context.subjects:
        if subject.spec.model.decoder.aggregation["kind"] != "mlrf-self-attention":
            notes.append(f"{subject.row.id}: its decoder has no mlrf-self-attention; left out")
            continue
        row_records, changed = analyse_row(context, subject, sentences)
        records += row_records
        if changed:
            notes.append(f"{subject.row.id}: {changed} translations are not the same text once cut into subwords again")
    if not records:
        raise UserError(*notes)
    return Analysis("layer-attention", COLUMNS, records, partial(draw, records), notes, summary(records))


def analyse_row(context: AnalysisContext, subject: Subject, sentences: Sequence[int]) -> tuple[Records, int]:
    """Returns (records, number of translations that change when encoded and decoded)."""
    prepared, texts = context.prepared(subject), context.decoded(subject)["hypotheses"]
    if bad := [i for i in sentences if i >= len(texts)]:
        raise UserError(f"--option sentences: found {bad[0]}; expected numbers below {len(texts)}, the sentences of the test set")
    sources, targets = prepared.encode(prepared.sources(subject.spec.score.test)), prepared.encode_text(texts, "tgt")
    changed = sum(decoded != text for decoded, text in zip(prepared.decode(targets), texts, strict=True))
    model = context.model(subject)
    first = model.decoder.aggregation.states.first if isinstance(model.decoder.aggregation, MlrfSelfAttention) else 0
    total, positions = torch.zeros((), dtype=torch.float64), 0
    maps: dict[int, Tensor] = {}
    for i, a_TLP in attention(model, sources, targets):
        total = total + a_TLP.double().sum(0)
        positions += a_TLP.shape[0]
        if i in sentences:
            maps[i] = a_TLP
    records: Records = []
    for i in sentences:
        if i in maps:
            for t, (token, a_LP) in enumerate(zip([*pieces(prepared, targets[i]), END], maps[i], strict=True)):
                records += _weights(subject.columns | {"sentence": i, "position": t, "token": token}, a_LP, first)
    if positions:
        records += _weights(subject.columns | {"sentence": "all", "position": None, "token": None}, total / positions, first)
    return records, changed


@torch.no_grad()
def attention(model: Transformer, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> Iterator[tuple[int, Tensor]]:
    """Yields (sentence index, weights [T, L, P] with EOS last) in no particular order. Empty sources are skipped."""
    for indices in batches([len(source) for source in sources]):
        width = max(len(targets[i]) for i in indices) + 1
        read = torch.tensor([[BOS, *targets[i], *([PAD] * (width - 1 - len(targets[i])))] for i in indices])
        trace: list[tuple[torch.nn.Module, Tensor]] = []
        model.decode(read, model.encode(pad([sources[i] for i in indices])), trace=trace)
        a_BTLP = next(a for module, a in trace if isinstance(module, MlrfSelfAttention))
        for row, i in enumerate(indices):
            yield i, a_BTLP[row, : len(targets[i]) + 1]


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
    """Draws a strip per sentence with one panel per hop, tokens from top to bottom and l0..lL from left to right; the means come last."""
    parts = list(group_by(records, "row", "seed", "sentence").values())
    hops, layers = max(r["hop"] for r in records), len({r["layer"] for r in records})
    heights = [1.0 + CELL * _num_lines(part) for part in parts]
    figure.set_size_inches(2.2 + hops * max(0.85, 0.2 * layers), sum(heights))
    panes = figure.subfigures(len(parts), 1, height_ratios=heights, squeeze=False)[:, 0]
    high = max((r["weight"] for r in records if r["sentence"] != "all"), default=0.0)
    for pane, part in zip(panes, parts, strict=True):
        if part[0]["sentence"] == "all":
            _draw_means(pane, part)
        else:
            _draw_sentence(pane, part, high)


def _num_lines(part: Records) -> int:
    if part[0]["sentence"] == "all":
        return 2 * max(r["hop"] for r in part)
    return min(MAX_TOKENS, max(r["position"] for r in part) + 1)


def _draw_sentence(pane: SubFigure, part: Records, high: float) -> None:
    layers = list(group_by(part, "layer"))
    tokens = [r["token"] for r in part if r["hop"] == 1 and r["layer"] == layers[0]]
    hops = group_by(part, "hop")
    panels = pane.subplots(1, len(hops), sharey=True, squeeze=False)[0]
    image: Any = None
    for axes, (hop, own) in zip(panels, hops.items(), strict=True):
        weight = {(r["position"], r["layer"]): r["weight"] for r in own}
        image = figures.heat_map(axes, [[weight[t, l] for l in layers] for t in range(min(len(tokens), MAX_TOKENS))], 0.0, high)
        axes.set_title(f"hop {hop}")
        axes.set_xticks(range(len(layers)), layers, fontsize=7)
        axes.set_xlabel("layer")
    labels = [figures.short(token, 18) for token in tokens[:MAX_TOKENS]]
    panels[0].set_yticks(range(len(labels)), labels, fontsize=7)
    panels[0].set_ylabel("target token")
    cut = f", first {MAX_TOKENS} of {len(tokens)} tokens" if len(tokens) > MAX_TOKENS else ""
    pane.suptitle(f"{figures.short(part[0]['label'], 40)}: sentence {part[0]['sentence']}{cut}", fontsize=9)
    pane.colorbar(image, ax=list(panels), label="weight", fraction=0.05)


def _draw_means(pane: SubFigure, part: Records) -> None:
    layers, hops = list(group_by(part, "layer")), list(group_by(part, "hop"))
    axes = pane.subplots()
    weight = {(r["hop"], r["layer"]): r["weight"] for r in part}
    high = max(weight.values())
    image = figures.heat_map(axes, [[weight[hop, l] for l in layers] for hop in hops], 0.0, high)
    for (hop, layer), value in weight.items():
        colour = "white" if high <= 0.0 or value / high < 0.6 else "black"
        axes.text(layers.index(layer), hop - 1, f"{value:.2f}", ha="center", va="center", fontsize=7, color=colour)
    axes.set_xticks(range(len(layers)), layers)
    axes.set_yticks(range(len(hops)), [str(hop) for hop in hops])
    axes.set(xlabel="layer", ylabel="hop")
    pane.suptitle(f"{figures.short(part[0]['label'], 40)}: mean over the test set", fontsize=9)
    pane.colorbar(image, ax=axes, label="weight", fraction=0.05)
