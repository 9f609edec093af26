"""Backout, of a record in training speed."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from models.registry import CONNECTIONS
from models.seams import Connection
from models.site import Flow, History, Site


@CONNECTIONS.register("backout")
class Backout(Connection):
    """The plain stack, whose output is h_L - b h_k (modded-nanogpt, record of October 2025); b is learned.

    Args:
        layer: k, the layer that is subtracted; 0: floor(2L / 3), about theirs.
        start: b at the start of training.
        rate: factor of the learning rate of b (theirs is 5).
    """

    def __init__(self, site: Site, *, layer: int = 0, start: float = 0.5, rate: float = 1.0) -> None:
        super().__init__(site)
        self.top, self.layer, self.start, self.rate = site.num_layers + 1, layer or 2 * site.num_layers // 3, start, rate
        self.weight = nn.Parameter(torch.zeros(1))

    @classmethod
    def check(cls, site: dict[str, Any], **options: Any) -> str | None:
        layer, layers = options.get("layer", 0), site["num_layers"]
        if layers < 2 or layer >= layers:
            return f"layer is {layer} of {layers}; expected at least 2 layers and one below the last"
        return cls.check_rate(options)

    def initialise(self, name: str, generator: torch.Generator) -> Tensor:
        return torch.full((1,), self.start)

    def forward(self, layer: int, history: History, flow: Flow) -> Tensor:
        h = history.kept[layer - 1]
        return h if layer < self.top else h - self.weight * history.kept[self.layer]
