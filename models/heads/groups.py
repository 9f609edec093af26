"""Predictions of groups of layers, of Yang et al. 2022."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from models.aggregations.groups import group_fault
from models.memory import Memory
from models.registry import HEADS
from models.seams import Head
from models.site import Flow, History, Site


@HEADS.register("groups")
class GroupPredictions(Head):
    """log p = sum_g u_g log softmax(W LN(X_g) + b), u = softmax(w / sqrt(D)), w = 0 at the start (Yang et al. 2022, GTrans, section 3).

    X_g is the output of the last of each `size` decoder layers. One norm, the stack's last one, serves all groups; in post-norm there is
    none. The loss is the same sum of losses. Search and nll have p sum to 1, which the authors' scores do not.

    Args:
        size: decoder layers of a group; a divisor of their number, so that there are two groups or more.
    """

    reads_layers = True

    def __init__(self, site: Site, *, size: int = 2) -> None:
        super().__init__(site)
        self.size, self.parts = size, site.num_layers // size
        self.weight = nn.Parameter(torch.zeros(self.parts))
        self.norm = site.layer_norm() if site.norm == "pre" else nn.Identity()
        self.temperature = site.d_model**0.5

    @classmethod
    def check(cls, site: dict[str, Any], **options: Any) -> str | None:
        return group_fault(options.get("size", 2), site["num_layers"])

    @classmethod
    def predictions(cls, num_layers: int, **options: Any) -> int:
        return num_layers // int(options.get("size", 2))

    def initialise(self, name: str, generator: torch.Generator) -> Tensor:
        return torch.zeros(self.weight.shape)

    def forward(self, hidden: Tensor, history: History, source: Memory | None, flow: Flow) -> tuple[Tensor, ...]:
        return tuple(self.norm(x) for x in history.kept[self.size :: self.size])

    def shares(self) -> Tensor:
        return (self.weight / self.temperature).softmax(-1)
