"""Cross-attention of the top decoder layer, averaged over its heads, for chosen sentences (Wei et al. 2020, Figs. 4 and 6).

The decoder is teacher forced on the row's own translation; position t is named after the token that it predicts, the last one after EOS.
Where a layer attends to several memories, the map is that over the encoder's states, without the gate (Att_h).

Shapes: T target positions, S source positions (EOS last on both sides), H heads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from models.attention import MultiHeadAttention
from models.transformer import Transformer
from orchestrator.analysis import attention_maps_figure
from orchestrator.analysis.base import Analysis, Context, Subject, numbers
from orchestrator.analysis.layer_attention import END, pieces
from orchestrator.decoding.beam import BOS
from orchestrator.decoding.translate import pad
from orchestrator.errors import UserError

if TYPE_CHECKING:
    from orchestrator.data.store import Prepared

OPTIONS = {"sentences": "0,1,2"}
NEEDS_WEIGHTS = True
COLUMNS = ["row", "label", "seed", "sentence", "position", "token", "source_position", "source_token", "weight"]


def analyse(context: Context) -> Analysis:
    """A record for each row, sentence (counted from 0), target and source position; weights of a position add up to 1.

    UserError for a sentence that is not there, and where no row has cross-attention of this kind.
    """
    chosen = list(dict.fromkeys(numbers("sentences", context.options["sentences"])))
    records: list[dict[str, Any]] = []
    notes: list[str] = []
    for subject in context.subjects:
        found, said = of_row(context, subject, chosen)
        records += found
        notes += said
    if not records:
        raise UserError(*(notes or ["attention-maps: found no sentence with words"]))
    draw = partial(attention_maps_figure.draw, records)
    return Analysis("attention-maps", COLUMNS, records, draw, notes, summary(records))


def of_row(context: Context, subject: Subject, chosen: Sequence[int]) -> tuple[list[dict[str, Any]], list[str]]:
    """(records, notes)."""
    prepared, texts, test = context.prepared(subject), context.decoded(subject)["hypotheses"], subject.spec.score.test
    if bad := [i for i in chosen if i >= len(texts)]:
        raise UserError(f"--option sentences: found {bad[0]}; expected numbers below {len(texts)}, the sentences of the test set")
    model = context.model(subject)
    attention = attention_of(model)
    if attention is None:
        return [], [f"{subject.row.id}: its top decoder layer has no multi-head attention to the source; left out"]
    lines = prepared.sources(test)
    sources, targets = prepared.encode([lines[i] for i in chosen]), prepared.encode_text([texts[i] for i in chosen], "tgt")
    records, notes = [], []
    for i, source, target in zip(chosen, sources, targets, strict=True):
        if not source:
            notes.append(f"sentence {i} is empty")
            continue
        if prepared.decode([target])[0] != texts[i]:
            notes.append(f"{subject.row.id}: its translation of sentence {i} is not the same text once cut into subwords again")
        records += _weights(prepared, _about(subject, i), source, target, attention_map(model, attention, source, target))
    return records, notes


def attention_of(model: Transformer) -> MultiHeadAttention | None:
    """The top decoder layer's attention over the encoder's states: the cross-attention's own `attention`, else its first."""
    cross = getattr(model.decoder.layers[-1], "cross_attention", None)
    if not isinstance(cross, nn.Module):
        return None
    own = getattr(cross, "attention", None)
    found = [own] if isinstance(own, MultiHeadAttention) else [m for m in cross.modules() if isinstance(m, MultiHeadAttention)]
    return found[0] if found else None


@torch.no_grad()
def attention_map(model: Transformer, attention: nn.Module, source: Sequence[int], target: Sequence[int]) -> Tensor:
    """[T, S]: mean over the heads; target position t reads BOS and the t tokens before it."""
    trace: list[tuple[nn.Module, Tensor]] = []
    model.decode(torch.tensor([[BOS, *target]]), model.encode(pad([source])), trace=trace)
    weights_BHTS = next(weights for module, weights in trace if module is attention)
    return weights_BHTS[0].mean(0)


def _about(subject: Subject, sentence: int) -> dict[str, Any]:
    return {"row": subject.row.id, "label": subject.label, "seed": subject.spec.seed, "sentence": sentence}


def _weights(
    prepared: Prepared, about: Mapping[str, Any], source: Sequence[int], target: Sequence[int], weights_TS: Tensor
) -> list[dict[str, Any]]:
    sources, targets = [*pieces(prepared, source, "src"), END], [*pieces(prepared, target), END]
    return [
        {**about, "position": t, "token": token, "source_position": s, "source_token": word, "weight": round(float(weight), 6)}
        for t, (token, row) in enumerate(zip(targets, weights_TS, strict=True))
        for s, (word, weight) in enumerate(zip(sources, row, strict=True))
    ]


def summary(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """Of each map, how sharp it is: the mean over target positions of the largest weight and of the entropy."""
    import math

    maps: dict[tuple[Any, ...], dict[int, list[float]]] = {}
    for r in records:
        maps.setdefault((r["row"], r["seed"], r["sentence"]), {}).setdefault(r["position"], []).append(r["weight"])
    lines = []
    for (row, seed, sentence), positions in maps.items():
        largest = sum(max(weights) for weights in positions.values()) / len(positions)
        entropy = sum(-sum(w * math.log(w) for w in weights if w > 0) for weights in positions.values()) / len(positions)
        lines.append(f"{row} seed {seed} sentence {sentence}: mean of the largest weight {largest:.3f}, mean entropy {entropy:.3f} nats")
    return lines
