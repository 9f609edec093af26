"""First weights: copied from a trained parent where name and shape match (Dou 2018, section 4.1), or taken from data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn

from models.initialise import stream_seed
from models.residuals import admin
from models.transformer import Transformer
from orchestrator.data.prepare import Prepared
from orchestrator.specs.schema import RunSpec
from orchestrator.training.batches import UpdateLoader


class WarmStart(NamedTuple):
    """Parameters of the variant that were copied from the parent, those that were not, and parameters of the parent that were not used."""

    copied: list[str]
    fresh: list[str]
    unused: list[str]


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


def profile(model: Transformer, prepared: Prepared, spec: RunSpec, device: torch.device) -> None:
    """Sets the values that a model takes from data (`models.residuals.admin`), from the seed's first batch, equal on all workers."""
    if admin.profiles(model):
        batch = next(UpdateLoader(prepared.pairs("train"), spec.batch, spec.seed, 0, 1).updates(0, 0)).micro_batches[0]
        torch.manual_seed(stream_seed(spec.seed, "profile"))
        admin.profile(model, batch.src.to(device), batch.tgt_in.to(device))
