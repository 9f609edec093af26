"""Which layers each hop of the decoder's layer self-attention looks at, by target token (Wang et al. 2018, Fig. 5).

The decoder is teacher forced on the row's own translation; position t is named after the token that it predicts, the last one after
EOS. A translation's ids are made from its text: where that gives other text, it is said in a note.

Shapes: B sentences, T target positions, L states (layers, words first), P hops.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from models.aggregations.mlrf_self_attention import MlrfSelfAttention
from models.transformer import PAD, Transformer
from orchestrator.analysis import layer_attention_figure
from orchestrator.analysis.base import Analysis, Context, Subject, numbers
from orchestrator.decoding.beam import BOS
from orchestrator.decoding.translate import batches, pad
from orchestrator.errors import UserError

if TYPE_CHECKING:
    from orchestrator.data.store import Prepared

OPTIONS = {"sentences": "0,1,2"}
COLUMNS = ["row", "label", "seed", "sentence", "position", "token", "hop", "layer", "weight"]
NEEDS_WEIGHTS = True
END = "</s>"


def analyse(context: Context) -> Analysis:
    """Weights of the chosen test sentences (counted from 0), then, as sentence `all`, the mean over all positions of the test set.

    UserError for a sentence that is not there, and where no row has such a decoder.
    """
    chosen = list(dict.fromkeys(numbers("sentences", context.options["sentences"])))
    records: list[dict[str, Any]] = []
    notes: list[str] = []
    for subject in context.subjects:
        if subject.spec.model.decoder.aggregation["kind"] != "mlrf-self-attention":
            notes.append(f"{subject.row.id}: its decoder has no mlrf-self-attention; left out")
            continue
        found, odd = of_row(context, subject, chosen)
        records += found
        if odd:
            notes.append(f"{subject.row.id}: {odd} translations are not the same text once cut into subwords again")
    if not records:
        raise UserError(*notes)
    return Analysis("layer-attention", COLUMNS, records, partial(layer_attention_figure.draw, records), notes, summary(records))


def of_row(context: Context, subject: Subject, chosen: Sequence[int]) -> tuple[list[dict[str, Any]], int]:
    """(records, how many translations change when they are encoded and decoded again)."""
    prepared, texts = context.prepared(subject), context.decoded(subject)["hypotheses"]
    if bad := [i for i in chosen if i >= len(texts)]:
        raise UserError(f"--option sentences: found {bad[0]}; expected numbers below {len(texts)}, the sentences of the test set")
    sources, targets = prepared.encode(prepared.sources(subject.spec.score.test)), prepared.encode_text(texts, "tgt")
    odd = sum(again != text for again, text in zip(prepared.decode(targets), texts, strict=True))
    model = context.model(subject)
    about = {"row": subject.row.id, "label": subject.label, "seed": subject.spec.seed}
    first = model.decoder.aggregation.states.first if isinstance(model.decoder.aggregation, MlrfSelfAttention) else 0
    records: list[dict[str, Any]] = []
    total, positions = None, 0
    maps: dict[int, Tensor] = {}
    for i, a_TLP in attention(model, sources, targets):
        total = a_TLP.double().sum(0) if total is None else total + a_TLP.double().sum(0)
        positions += a_TLP.shape[0]
        if i in chosen:
            maps[i] = a_TLP
    for i in chosen:
        if i in maps:
            tokens = [*pieces(prepared, targets[i]), END]
            for t, (token, a_LP) in enumerate(zip(tokens, maps[i], strict=True)):
                records += _weights(about | {"sentence": i, "position": t, "token": token}, a_LP, first)
    if total is not None:
        records += _weights(about | {"sentence": "all", "position": None, "token": None}, total / positions, first)
    return records, odd


@torch.no_grad()
def attention(model: Transformer, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> Iterator[tuple[int, Tensor]]:
    """(index of the sentence, its weights [T, L, P], EOS last), in no particular order; empty sources are passed over."""
    for indices in batches([len(source) for source in sources]):
        width = max(len(targets[i]) for i in indices) + 1
        read = torch.tensor([[BOS, *targets[i], *([PAD] * (width - 1 - len(targets[i])))] for i in indices])
        trace: list[tuple[torch.nn.Module, Tensor]] = []
        model.decode(read, model.encode(pad([sources[i] for i in indices])), trace=trace)
        a_BTLP = next(a for module, a in trace if isinstance(module, MlrfSelfAttention))
        for row, i in enumerate(indices):
            yield i, a_BTLP[row, : len(targets[i]) + 1]


def pieces(prepared: Prepared, ids: Sequence[int], side: str = "tgt") -> list[str]:
    """The text of each id; `@@` at the end of those that the next one continues."""
    texts = prepared.decode_tokens([list(ids[: n + 1]) for n in range(len(ids))], side)
    added = [text[len(before) :] for before, text in zip(["", *texts], texts, strict=False)]
    ends = [i + 1 == len(added) or added[i + 1][:1] == " " for i in range(len(added))]
    return [piece.strip() + ("" if end else "@@") for piece, end in zip(added, ends, strict=True)]


def _weights(about: Mapping[str, Any], a_LP: Tensor, first: int) -> list[dict[str, Any]]:
    """A record for each hop and layer of one position."""
    return [
        {**about, "hop": p, "layer": f"l{l}", "weight": round(float(weight), 6)}
        for p, hop in enumerate(a_LP.unbind(-1), start=1)
        for l, weight in enumerate(hop, start=first)
    ]


def summary(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """Of each hop, its mean weights over the test set."""
    lines: dict[tuple[Any, ...], list[str]] = {}
    for r in records:
        if r["sentence"] == "all":
            lines.setdefault((r["row"], r["seed"], r["hop"]), []).append(f"{r['layer']} {r['weight']:.3f}")
    return [f"{row} seed {seed}: hop {hop} on average  {'  '.join(weights)}" for (row, seed, hop), weights in lines.items()]
