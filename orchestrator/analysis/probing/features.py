"""Sentence vectors of a frozen encoder: the means over non-padding positions of its top states and of the extra encoder's memory, if any.

Shapes: N sentences, B batch, S source positions (including EOS), T slots of the extra memory, D d_model, R width of the extra memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from models.memory import Memory
from models.transformer import PAD, Transformer
from orchestrator.decoding.translate import batches, pad

BATCH_TOKENS = 8192


class Features(NamedTuple):
    """Sentence vectors in fp32: `encoder` (m_e) is [N, D], `extra` (m_r) [N, R], or None without an extra encoder."""

    encoder: Tensor
    extra: Tensor | None

    def at(self, rows: Tensor | slice) -> Features:
        """Selects sentences."""
        return Features(self.encoder[rows], None if self.extra is None else self.extra[rows])


@torch.no_grad()
def features(model: Transformer, ids: Sequence[Sequence[int]], on_progress: Callable[[int], None] = lambda done: None) -> Features:
    """Computes the vectors of sentences, in their order, on the model's device. `ids` have no EOS.

    on_progress: called with the number of sentences of each batch. Raises ValueError without sentences or if the model is in training mode.
    """
    if model.training:
        raise ValueError("the model is in training mode")
    if not ids:
        raise ValueError("there is no sentence")
    device = next(model.parameters()).device
    order: list[int] = []
    means: list[tuple[Tensor, ...]] = []
    with _hooked(model) as outputs:
        for indices in batches([max(1, len(sentence)) for sentence in ids], BATCH_TOKENS, 256):
            src = pad([ids[i] for i in indices]).to(device)
            model.encode(src)
            memory: Memory | None = outputs.get("extra")
            encoder = mean(outputs["encoder"], src != PAD)
            means.append((encoder,) if memory is None else (encoder, mean(memory.keys, memory.mask)))
            order += indices
            on_progress(len(indices))
    back = torch.tensor(order, device=device).argsort()
    encoder, *extra = (torch.cat(parts)[back] for parts in zip(*means, strict=True))
    return Features(encoder, extra[0] if extra else None)


def mean(states: Tensor, mask: Tensor) -> Tensor:
    """Averages states [B, S, D] over positions where the mask [B, S] is True; returns [B, D]."""
    weights = mask.to(torch.float32)
    total = torch.einsum("bsd,bs->bd", states.float().masked_fill(~mask[..., None], 0.0), weights)
    return total / weights.sum(1, keepdim=True)


@contextmanager
def _hooked(model: Transformer) -> Iterator[dict[str, Any]]:
    """Captures the last output of the encoder stack (`encoder`) and of the extra encoder (`extra`), before any bridge."""
    outputs: dict[str, Any] = {}

    def stack(module: nn.Module, inputs: Any, output: tuple[Tensor, Any]) -> None:
        outputs["encoder"] = output[0]

    def extra(module: nn.Module, inputs: Any, output: Memory) -> None:
        outputs["extra"] = output

    hooks = [model.encoder.register_forward_hook(stack)]
    if model.extra_encoder is not None:
        hooks.append(model.extra_encoder.register_forward_hook(extra))
    try:
        yield outputs
    finally:
        for hook in hooks:
            hook.remove()
