"""Parameters that a component adds to the plain model, at the three sizes whose counts the recipes of methods give."""

from __future__ import annotations

from typing import Any

import torch

from models import build, count_parameters

SIZES = {"base": (512, 2048, 8, 6, 6), "mini": (256, 1024, 4, 4, 2), "small": (128, 512, 4, 6, 6)}
"""d_model, d_ff, heads, encoder and decoder layers."""


def added(norm: str = "pre", encoder: dict[str, Any] | None = None, decoder: dict[str, Any] | None = None, **model: Any) -> tuple[int, ...]:
    """Parameters beyond the plain model's with these components, at each of SIZES."""
    found = []
    for d, f, heads, above, below in SIZES.values():
        base = {"d_model": d, "d_ff": f, "num_heads": heads, "norm": norm}
        sides = {"encoder": {"num_layers": above}, "decoder": {"num_layers": below}}
        own = {"encoder": sides["encoder"] | (encoder or {}), "decoder": sides["decoder"] | (decoder or {})}
        with torch.device("meta"):
            found.append(count_parameters(build(base | own | model, 9, 9)) - count_parameters(build(base | sides, 9, 9)))
    return tuple(found)


def on_both(slot: str, **component: Any) -> dict[str, Any]:
    return {"encoder": {slot: component}, "decoder": {slot: component}}
