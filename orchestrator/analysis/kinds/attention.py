"""Attention of a decoder that is teacher forced on the row's own translations, for chosen test sentences.

attention-maps: cross-attention of the top decoder layer, averaged over its heads (Wei et al. 2020, Figs. 4 and 6). If a layer attends to
several memories, the map shows the attention over the encoder's states, without the gate (Att_h).
layer-attention: each hop of the decoder's layer self-attention over layers, by target token (Wang et al. 2018, Fig. 5).

Position t of the target is labelled with the token it predicts; the last one predicts EOS.

Shapes: T target positions, S source positions (EOS last on both sides), H heads, L states (layers, embeddings first), P hops.
"""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import pandas as pd
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from models.aggregations.mlrf import MlrfSelfAttention
from models.attention import MultiHeadAttention
from models.transformer import PAD, Transformer
from orchestrator.analysis import figures
from orchestrator.analysis.base import Analysis, AnalysisContext, Records, Split, Subject, group_by, register, table_of
from orchestrator.data.store import Prepared
from orchestrator.data.subword import BOS
from orchestrator.decoding.translate import batches, pad
from orchestrator.errors import UserError
from orchestrator.specs.base import Natural

MAX_TOKENS = 40
"""Tokens of a side in the figure; the records have all."""
Ids = Sequence[Sequence[int]]


@register("attention-maps", options={"sentences": (Annotated[list[Natural], Split], [0, 1, 2])}, needs_weights=True)
def attention_maps(context: AnalysisContext) -> Analysis:
    """Returns one record per row, sentence (from 0), target and source position. The weights of a target position sum to 1.

    Raises UserError for a sentence that does not exist, or if no row has multi-head cross-attention.
    """
    records, notes = context.each_row(_maps_of_row)
    largest = pd.DataFrame(records).groupby(["row", "sentence", "position"], sort=False).weight.max()
    sharpness = largest.groupby(["row", "sentence"], sort=False).mean()
    return Analysis(records, draw_maps, notes, table_of("mean of the largest weight, by sentence:", sharpness))


@register("layer-attention", options={"sentences": (Annotated[list[Natural], Split], [0, 1, 2])}, needs_weights=True)
def layer_attention(context: AnalysisContext) -> Analysis:
    """Returns the weights for the chosen test sentences (from 0), then, as sentence `all`, their mean over all positions of the test set.

    Raises UserError for a sentence that does not exist, or if no row has such a decoder.
    """
    records, notes = context.each_row(_layers_of_row)
    means = pd.DataFrame(r for r in records if r["sentence"] == "all").set_index(["row", "hop", "layer"]).weight
    return Analysis(records, draw_layers, notes, table_of("mean over the test set, by hop:", means))


def _maps_of_row(context: AnalysisContext, subject: Subject, notes: list[str]) -> Records:
    prepared, model = context.prepared(subject), context.model(subject)
    module = top_cross_attention(model)
    if module is None:
        notes.append(f"{subject.row.id}: its top decoder layer has no multi-head attention to the source; left out")
        return []
    sentences, sources, targets = _sentences(context, subject, notes)
    notes += [f"sentence {i} is empty" for i in sentences if not sources[i]]
    chosen = [i for i in sentences if sources[i]]
    maps = {chosen[n]: a_HTS.mean(0) for n, a_HTS in attention(model, module, [sources[i] for i in chosen], [targets[i] for i in chosen])}
    return [
        subject.columns
        | {"sentence": i, "position": t, "token": token}
        | {"source_position": s, "source_token": word, "weight": round(float(maps[i][t, s]), 6)}
        for i in chosen
        for t, token in enumerate(pieces(prepared, targets[i]))
        for s, word in enumerate(pieces(prepared, sources[i], "src"))
    ]


def _layers_of_row(context: AnalysisContext, subject: Subject, notes: list[str]) -> Records:
    prepared, model = context.prepared(subject), context.model(subject)
    module = model.decoder.aggregation
    if not isinstance(module, MlrfSelfAttention):
        notes.append(f"{subject.row.id}: its decoder has no mlrf-self-attention; left out")
        return []
    sentences, sources, targets = _sentences(context, subject, notes)
    maps = {i: a_TLP[: len(targets[i]) + 1] for i, a_TLP in attention(model, module, sources, targets)}
    positions: list[tuple[dict[str, Any], Tensor]] = [
        ({"sentence": i, "position": t, "token": token}, a_LP)
        for i in sentences
        if i in maps
        for t, (token, a_LP) in enumerate(zip(pieces(prepared, targets[i]), maps[i], strict=True))
    ]
    positions.append(({"sentence": "all", "position": None, "token": None}, torch.cat(list(maps.values())).double().mean(0)))
    return [
        subject.columns | place | {"hop": p, "layer": f"l{l}", "weight": round(float(weight), 6)}
        for place, a_LP in positions
        for p, hop in enumerate(a_LP.unbind(-1), start=1)
        for l, weight in enumerate(hop, start=module.states.first)
    ]


def _sentences(context: AnalysisContext, subject: Subject, notes: list[str]) -> tuple[list[int], list[list[int]], list[list[int]]]:
    """Returns the chosen sentences, and the ids of all sources and translations of the test set.

    The ids of a translation are encoded from its text; a note counts those that do not decode to this text. UserError: no such sentence.
    """
    sentences = list(dict.fromkeys(context.options["sentences"]))
    prepared, texts = context.prepared(subject), context.decoded(subject)["hypotheses"]
    if bad := [i for i in sentences if i >= len(texts)]:
        raise UserError(f"--option sentences: found {bad[0]}; expected numbers below {len(texts)}, the sentences of the test set")
    targets = prepared.encode_text(texts, "tgt")
    if changed := sum(decoded != text for decoded, text in zip(prepared.decode(targets), texts, strict=True)):
        notes.append(f"{subject.row.id}: {changed} translations are not the same text once cut into subwords again")
    return sentences, prepared.encode(prepared.sources(subject.spec.score.test)), targets


def top_cross_attention(model: Transformer) -> MultiHeadAttention | None:
    """Returns the top decoder layer's attention over the encoder's states, or None: `attention` of the cross-attention, else its first."""
    cross = getattr(model.decoder.layers[-1], "cross_attention", None)
    if not isinstance(cross, nn.Module):
        return None
    own = getattr(cross, "attention", None)
    return next((module for module in (own, *cross.modules()) if isinstance(module, MultiHeadAttention)), None)


@torch.no_grad()
def attention(model: Transformer, module: nn.Module, sources: Ids, targets: Ids) -> Iterator[tuple[int, Tensor]]:
    """Yields (index, what `module` traced of this sentence, padded) in no particular order. Empty sources are skipped."""
    for indices in batches([len(source) for source in sources]):
        width = max(len(targets[i]) for i in indices) + 1
        read = torch.tensor([[BOS, *targets[i], *([PAD] * (width - 1 - len(targets[i])))] for i in indices])
        trace: list[tuple[nn.Module, Tensor]] = []
        model.decode(read, model.encode(pad([sources[i] for i in indices])), trace=trace)
        yield from zip(indices, next(weights for traced, weights in trace if traced is module), strict=True)


def pieces(prepared: Prepared, ids: Sequence[int], side: str = "tgt") -> list[str]:
    """Returns the text of each id and of EOS, ending in `@@` if the next subword continues the word."""
    texts = prepared.decode_tokens([list(ids[: n + 1]) for n in range(len(ids))], side)
    added = [text[len(before) :] for before, text in zip(["", *texts], texts, strict=False)]
    ends = [following[:1] == " " for following in added[1:]] + [True]
    return [piece.strip() + ("" if end else "@@") for piece, end in zip(added, ends, strict=False)] + ["</s>"]


def draw_maps(figure: Figure, records: Records) -> None:
    """Draws heat maps on one scale, a line per sentence and a column per row, source tokens from left to right."""
    grid = []
    for sentence, cells in group_by(records, "sentence").items():
        titles = ((f"{figures.short(label, 30)}: sentence {sentence}", own) for (_, label), own in group_by(cells, "row", "label").items())
        grid.append([_map(own, title, "source_position", "source_token") for title, own in titles])
    scale = (0.0, max(r["weight"] for r in records), "viridis")
    figures.heat_maps(figure, grid, ("source token", "target token"), "attention weight, mean over heads", scale)


def draw_layers(figure: Figure, records: Records) -> None:
    """Draws a line per sentence with one map per hop, tokens from top to bottom and layers from left to right; the means come last."""
    grid = []
    for (label, sentence), own in group_by(records, "label", "sentence").items():
        name = f"{figures.short(label, 30)}: {'mean of the test set' if sentence == 'all' else f'sentence {sentence}'}"
        if sentence == "all":
            means = _table(own, "hop", "layer")
            grid.append([figures.HeatMap(name, means, means.map("{:.2f}".format))])
        else:
            hops = enumerate(group_by(own, "hop").items())
            grid.append([_map(cells, f"{'' if n else name}\nhop {hop}", "layer", "layer") for n, (hop, cells) in hops])
    scale = (0.0, max(r["weight"] for r in records), "viridis")
    figures.heat_maps(figure, grid, ("layer", "target token or hop"), "weight", scale)


def _map(records: Records, title: str, columns: str, names: str) -> figures.HeatMap:
    table = _table(records, "position", columns)
    table.index = [token for _, token in group_by(records, "position", "token")]
    table.columns = [name for _, name in group_by(records, columns, names)]
    cut = f", first {MAX_TOKENS} tokens" if max(table.shape) > MAX_TOKENS else ""
    return figures.HeatMap(title + cut, table.iloc[:MAX_TOKENS, :MAX_TOKENS])


def _table(records: Records, index: str, columns: str) -> pd.DataFrame:
    return pd.DataFrame(records).set_index([index, columns]).weight.unstack(sort=False)
