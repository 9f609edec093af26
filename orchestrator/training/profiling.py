"""First values that a model takes from data (`models.residuals.admin`)."""

from __future__ import annotations

import torch

from models.initialise import stream_seed
from models.residuals import admin
from models.transformer import Transformer
from orchestrator.data.prepare import Prepared
from orchestrator.specs.schema import RunSpec
from orchestrator.training.batches import UpdateLoader


def profile(model: Transformer, prepared: Prepared, spec: RunSpec, device: torch.device) -> None:
    """Sets them from the first batch of the seed, the same one whatever the number of workers. Other models stay as they are."""
    if admin.profiles(model):
        batch = next(UpdateLoader(prepared.pairs("train"), spec.batch, spec.seed, 0, 1).updates(0, 0)).micro_batches[0]
        torch.manual_seed(stream_seed(spec.seed, "profile"))
        admin.profile(model, batch.src.to(device), batch.tgt_in.to(device))
