"""Initial weights from a trained parent, if name and shape match (Dou 2018, section 4.1), or from data."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from models.initialise import stream_seed
from models.residuals import scaled
from models.transformer import Transformer
from orchestrator.data.prepare import Prepared
from orchestrator.errors import UserError
from orchestrator.specs.schema import RunSpec
from orchestrator.training.batches import UpdateLoader


def warm_start(model: nn.Module, weights: Mapping[str, Tensor]) -> dict[str, list[str]]:
    """Copies a parent's matching tensors into `model`. Returns names: "copied", "fresh" (of the model), "unused" (of the parent).

    A name that both have in other shapes is in "fresh" and "unused". UserError if no tensor matches.
    """
    own = dict(model.named_parameters())
    copied = [name for name, parameter in own.items() if name in weights and weights[name].shape == parameter.shape]
    if not copied:
        raise UserError("init_from: no tensor of the parent has the name and shape of one of this row; expected a parent of like sizes")
    with torch.no_grad():
        for name in copied:
            own[name].copy_(weights[name])
    return {"copied": copied, "fresh": [name for name in own if name not in copied], "unused": sorted(set(weights) - set(copied))}


def profile(model: Transformer, prepared: Prepared, spec: RunSpec, device: torch.device) -> None:
    """Sets initial values from data (`models.residuals.scaled`). It uses the seed's first batch, which is equal on all workers."""
    if scaled.profiles(model):
        batch = next(UpdateLoader(prepared.pairs("train"), spec.batch, spec.seed, 0, 1).updates(0, 0)).micro_batches[0]
        torch.manual_seed(stream_seed(spec.seed, "profile"))
        scaled.profile(model, batch.src.to(device), batch.tgt_in.to(device))
