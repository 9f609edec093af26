"""Initialises a variant from a trained parent: tensors that match by name and shape are copied (Dou 2018, section 4.1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn


class WarmStart(NamedTuple):
    """Parameters of the variant that were copied from the parent, those that were not, and parameters of the parent that were not used."""

    copied: list[str]
    fresh: list[str]
    unused: list[str]

    def to_json(self) -> dict[str, Any]:
        return self._asdict()


def describe(lists: Mapping[str, list[str]]) -> str:
    """One line: how many tensors were copied, how many are fresh and in which modules. The names are in the record of the training."""
    copied, fresh, unused = (lists.get(name, []) for name in WarmStart._fields)
    modules = list(dict.fromkeys(".".join(name.split(".")[:2]) for name in fresh))
    where = f" ({', '.join(modules[:3])}{', ..' if len(modules) > 3 else ''})" if modules else ""
    line = f"warm start: {len(copied)} tensors copied from its parent, {len(fresh)} fresh{where}"
    return line + (f", {len(unused)} of the parent not used" if unused else "")


def warm_start(model: nn.Module, weights: Mapping[str, Tensor]) -> WarmStart:
    """Copies the matching tensors of `weights` into `model`."""
    copied, fresh = [], []
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name in weights and weights[name].shape == parameter.shape:
                parameter.copy_(weights[name])
                copied.append(name)
            else:
                fresh.append(name)
    return WarmStart(copied, fresh, sorted(set(weights) - set(copied)))
