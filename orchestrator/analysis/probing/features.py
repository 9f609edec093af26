"""Sentence vectors of a frozen encoder: means of its top states over real positions, and of the extra encoder's memory if there is one.

Shapes: N sentences, B of a batch, S source positions (EOS counted), T slots of the extra memory, D d_model, R width of the extra memory.
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
    """m_e [N, D]; m_r [N, R], None without an extra encoder. In the order of the sentences, fp32."""

    encoder: Tensor
    extra: Tensor | None

    def at(self, rows: Tensor | slice) -> Features:
        """Some of the sentences."""
        return Features(self.encoder[rows], None if self.extra is None else self.extra[rows])


@torch.no_grad()
def features(model: Transformer, ids: Sequence[Sequence[int]], on_progress: Callable[[int], None] = lambda done: None) -> Features:
    """Of sentences given as ids without EOS, in batches of similar length, on the model's device. The model must be in eval mode."""
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
    """[B, S, D], [B, S] True = real -> [B, D]"""
    weights = mask.to(torch.float32)
    total = torch.einsum("bsd,bs->bd", states.float().masked_fill(~mask[..., None], 0.0), weights)
    return total / weights.sum(1, keepdim=True)


@contextmanager
def _hooked(model: Transformer) -> Iterator[dict[str, Any]]:
    """The last output of the stack (`encoder`) and of the extra encoder (`extra`), before any bridge."""
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
