"""Start a variant from a trained parent: tensors that match by name and shape are copied, the rest stay fresh (Dou 2018, section 4.1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn


class WarmStart(NamedTuple):
    """Names of parameters of the variant: copied from the parent, left fresh; and names of the parent that found no place."""

    copied: list[str]
    fresh: list[str]
    unused: list[str]


def warm_start(model: nn.Module, weights: Mapping[str, Tensor]) -> WarmStart:
    copied, fresh = [], []
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name in weights and weights[name].shape == parameter.shape:
                parameter.copy_(weights[name])
                copied.append(name)
            else:
                fresh.append(name)
    return WarmStart(copied, fresh, sorted(set(weights) - set(copied)))
