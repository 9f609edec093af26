"""Models and single sub-layers with a residual, for the tests of residuals."""

from typing import Any

import torch

from models.config import ModelConfig
from models.initialise import initialise
from models.plain import SubLayer
from models.site import Site
from models.transformer import build
from tests.unit.models.model_cases import VOCAB, batch, config


def sublayer(norm: str = "pre", place: int = 1, layer: int = 1, **residual) -> SubLayer:
    """Sub-layer `place` of an encoder layer, one of six, d_model 8, with its initial values."""
    settings = ModelConfig.of({"d_model": 8, "num_heads": 2, "norm": norm, "encoder": {"num_layers": 6, "residual": residual}})
    site = Site("encoder", layer, 6, settings, before=2 * (layer - 1), place=place, role="self", sublayers=12)
    made = SubLayer(site.at(order="none") if residual == {"kind": "rezero"} else site).eval()
    initialise(made, "xavier", 1)
    return made.requires_grad_(False)


def both(norm: str, layers: int = 4, **residual) -> dict[str, Any]:
    return config(norm, **{side: {"num_layers": layers, "residual": residual} for side in ("encoder", "decoder")})


def model_of(norm: str, layers: int = 4, **residual):
    return build(both(norm, layers, **residual), VOCAB, VOCAB, 1).eval().requires_grad_(False)


def hidden(model) -> torch.Tensor:
    return model(*batch()).hidden


def x_and_y() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(2)
    return torch.randn(2, 3, 8, generator=generator), torch.randn(2, 3, 8, generator=generator)


def streams(width: int = 3) -> torch.Tensor:
    return torch.randn(2, 3, width, 8, generator=torch.Generator().manual_seed(3))
