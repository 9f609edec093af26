"""Initialises a variant from a trained parent: tensors that match by name and shape are copied (Dou 2018, section 4.1)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
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


def describe(lists: Mapping[str, list[str]]) -> list[str]:
    """A line for each list; names that differ in the layer are merged: `encoder.layers.*.sublayer.norm.weight (6)`."""
    phrases = {"copied": "copied from its parent", "fresh": "fresh", "unused": "of the parent not used"}
    return [
        f"warm start: {len(lists.get(name, []))} tensors {phrase}: {_merged(lists.get(name, []))}"
        for name, phrase in phrases.items()
        if lists.get(name) or name != "unused"
    ]


def _merged(names: Iterable[str]) -> str:
    counts = Counter(re.sub(r"(?<=\.)\d+(?=\.)", "*", name) for name in names)
    return ", ".join(name if count == 1 else f"{name} ({count})" for name, count in counts.items()) or "none"


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
