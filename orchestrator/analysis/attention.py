"""Attention of a decoder that is teacher forced on the row's own translations, and the text of subwords.

Position t of the target is labelled with the token it predicts; the last one predicts EOS.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from models.transformer import PAD, Transformer
from orchestrator.analysis.base import AnalysisContext, Subject
from orchestrator.data.store import Prepared
from orchestrator.decoding.beam import BOS
from orchestrator.decoding.translate import batches, pad
from orchestrator.errors import UserError

END = "</s>"
Ids = Sequence[Sequence[int]]


def pairs_of(
    context: AnalysisContext, subject: Subject, sentences: Sequence[int], notes: list[str]
) -> tuple[list[list[int]], list[list[int]]]:
    """Returns ids of all sources and translations of the test set. Raises UserError if one of `sentences` does not exist.

    The ids of a translation are encoded from its text; a note counts the translations that do not decode to the same text.
    """
    prepared, texts = context.prepared(subject), context.decoded(subject)["hypotheses"]
    if bad := [i for i in sentences if i >= len(texts)]:
        raise UserError(f"--option sentences: found {bad[0]}; expected numbers below {len(texts)}, the sentences of the test set")
    targets = prepared.encode_text(texts, "tgt")
    if changed := sum(decoded != text for decoded, text in zip(prepared.decode(targets), texts, strict=True)):
        notes.append(f"{subject.row.id}: {changed} translations are not the same text once cut into subwords again")
    return prepared.encode(prepared.sources(subject.spec.score.test)), targets


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
    return [piece.strip() + ("" if end else "@@") for piece, end in zip(added, ends, strict=False)] + [END]
