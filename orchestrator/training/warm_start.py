"""Start a variant from a trained parent: tensors that match by name and shape are copied, the rest stay fresh (Dou 2018, section 4.1)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn


class WarmStart(NamedTuple):
    """Names of parameters of the variant: copied from the parent, left fresh; and names of the parent that found no place."""

    copied: list[str]
    fresh: list[str]
    unused: list[str]

    def to_json(self) -> dict[str, Any]:
        return self._asdict()


def describe(lists: Mapping[str, list[str]]) -> list[str]:
    """A line for each list; the layers of a name are folded: `encoder.layers.*.sublayer.norm.weight (6)`."""
    words = {"copied": "copied from its parent", "fresh": "fresh", "unused": "of the parent not used"}
    return [
        f"warm start: {len(lists.get(name, []))} tensors {said}: {_folded(lists.get(name, []))}"
        for name, said in words.items()
        if lists.get(name) or name != "unused"
    ]


def _folded(names: Iterable[str]) -> str:
    counts = Counter(re.sub(r"(?<=\.)\d+(?=\.)", "*", name) for name in names)
    return ", ".join(name if count == 1 else f"{name} ({count})" for name, count in counts.items()) or "none"


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
