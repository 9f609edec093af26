"""Sentence vectors of a frozen encoder: means of its top states over real positions, and of the extra encoder's memory where there is one.

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
        """These sentences only."""
        return Features(self.encoder[rows], None if self.extra is None else self.extra[rows])


@torch.no_grad()
def features(model: Transformer, ids: Sequence[Sequence[int]], on_progress: Callable[[int], None] = lambda done: None) -> Features:
    """Of sentences as ids without EOS. The model must be in eval mode; batches are of like length. On the model's device."""
    if model.training:
        raise ValueError("the model is in training mode")
    device = next(model.parameters()).device
    found: list[Tensor | None] = [None, None]
    with _watched(model) as seen:
        for indices in batches([max(1, len(sentence)) for sentence in ids], BATCH_TOKENS, 256):
            src = pad([ids[i] for i in indices]).to(device)
            model.encode(src)
            means = [mean(seen["encoder"], src != PAD)]
            if (memory := seen.get("extra")) is not None:
                means.append(mean(memory.keys, memory.mask))
            place = torch.tensor(indices, device=device)
            for which, values in enumerate(means):
                if (kept := found[which]) is None:
                    kept = found[which] = torch.zeros(len(ids), values.shape[-1], device=device)
                kept[place] = values
            on_progress(len(indices))
    encoder, extra = found
    if encoder is None:
        raise ValueError("there is no sentence")
    return Features(encoder, extra)


def mean(states: Tensor, mask: Tensor) -> Tensor:
    """[B, S, D], [B, S] True = real -> [B, D]"""
    weights = mask.to(torch.float32)
    total = torch.einsum("bsd,bs->bd", states.float().masked_fill(~mask[..., None], 0.0), weights)
    return total / weights.sum(1, keepdim=True)


@contextmanager
def _watched(model: Transformer) -> Iterator[dict[str, Any]]:
    """The last output of the stack (`encoder`) and of the extra encoder (`extra`), whatever the bridge makes of them."""
    seen: dict[str, Any] = {}

    def stack(module: nn.Module, inputs: Any, output: tuple[Tensor, Any]) -> None:
        seen["encoder"] = output[0]

    def extra(module: nn.Module, inputs: Any, output: Memory) -> None:
        seen["extra"] = output

    hooks = [model.encoder.register_forward_hook(stack)]
    if model.extra_encoder is not None:
        hooks.append(model.extra_encoder.register_forward_hook(extra))
    try:
        yield seen
    finally:
        for hook in hooks:
            hook.remove()
