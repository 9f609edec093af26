"""Sentence vectors of a frozen encoder: the means over non-padding positions of its top states and of the extra encoder's memory, if any.

Shapes: N sentences, B batch, S source positions (including EOS), D d_model, R width of the extra memory (0 without an extra encoder).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor

from models.transformer import PAD, Transformer
from orchestrator.decoding.translate import batches, pad

BATCH_TOKENS = 8192


@torch.no_grad()
def features(
    model: Transformer, ids: Sequence[Sequence[int]], on_progress: Callable[[int], None] = lambda done: None
) -> tuple[Tensor, int]:
    """Returns (vectors [N, D + R] in fp32, D) on the model's device. `ids` have no EOS. The model must be in eval mode.

    on_progress: called with the number of sentences of each batch.
    """
    assert not model.training, "dropout would change the vectors"
    device = next(model.parameters()).device
    order: list[int] = []
    means: list[Tensor] = []
    last: dict[str, Any] = {}  # the last output of each encoder, before any bridge
    with ExitStack() as hooks:
        hooks.enter_context(model.encoder.register_forward_hook(lambda module, inputs, output: last.update(top=output[0])))
        if model.extra_encoder is not None:
            hooks.enter_context(model.extra_encoder.register_forward_hook(lambda module, inputs, output: last.update(extra=output)))
        for indices in batches([max(1, len(sentence)) for sentence in ids], BATCH_TOKENS, 256):
            src = pad([ids[i] for i in indices]).to(device)
            model.encode(src)
            vectors = [mean(last["top"], src != PAD)]
            if "extra" in last:
                vectors.append(mean(last["extra"].keys, last["extra"].mask))
            means.append(torch.cat(vectors, dim=-1))
            order += indices
            on_progress(len(indices))
    return torch.cat(means)[torch.tensor(order, device=device).argsort()], vectors[0].shape[1]


def mean(states: Tensor, mask: Tensor) -> Tensor:
    """Averages states [B, S, D] over positions where the mask [B, S] is True; returns [B, D]."""
    weights = mask.to(torch.float32)
    total = torch.einsum("bsd,bs->bd", states.float().masked_fill(~mask[..., None], 0.0), weights)
    return total / weights.sum(1, keepdim=True)
