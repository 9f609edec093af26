"""Mixtures of predictions: of groups of layers, or of the decoder and the source words."""

from dataclasses import replace
from typing import Annotated, Any

import torch
from torch import Tensor, nn

from models.aggregations.linear import group_fault
from models.attention import MultiHeadAttention
from models.config import Bounds
from models.initialise import starts_as
from models.registry import HEADS
from models.seams import Head
from models.site import Flow, History, Memory, Site

Share = Annotated[float, Bounds(gt=0, lt=1)]


@HEADS.register("groups")
class GroupPredictions(Head):
    """log p = sum_g u_g log softmax(W LN(X_g) + b), u = softmax(w / sqrt(D)), w = 0 at the start (Yang et al. 2022, GTrans, section 3).

    X_g is the output of the last of each `size` decoder layers. All groups share the stack's final norm; post-norm has none. The loss is
    the sum of the groups' losses with weights u_g. Search and nll normalise p; the authors' scores do not sum to 1.

    Args:
        size: decoder layers per group; a divisor of their number that gives at least two groups.
    """

    reads_layers = True

    def __init__(self, site: Site, *, size: int = 2) -> None:
        super().__init__(site)
        self.size, self.parts = size, site.num_layers // size
        self.weight = starts_as(torch.zeros(self.parts))
        self.norm = site.layer_norm() if site.norm == "pre" else nn.Identity()
        self.temperature = site.d_model**0.5

    @classmethod
    def check(cls, site: dict[str, Any], **options: Any) -> str | None:
        return group_fault(options.get("size", 2), site["num_layers"])

    @classmethod
    def predictions(cls, num_layers: int, **options: Any) -> int:
        return num_layers // int(options.get("size", 2))

    def forward(self, hidden: Tensor, history: History, source: Memory | None, flow: Flow) -> tuple[Tensor, ...]:
        return tuple(self.norm(x) for x in history.kept[self.size :: self.size])

    def shares(self) -> Tensor:
        return (self.weight / self.temperature).softmax(-1)


@HEADS.register("surface_fusion")
class SurfaceFusion(Head):
    """e = MHA(q = h, k = encoder's output, v = source words) with one head; h and the encoder's output get no gradient through it (Liu et
    al. 2021, "Understanding and improving encoder layer fusion", section 4).

    log p = gate log softmax(W h + b) + (1 - gate) log softmax(W e + b), also in the loss: their hard fusion. Search and nll normalise p;
    the authors' scores do not sum to 1. Words are embedded and scaled, without positions (assumed). Not implemented: soft fusion, learned
    gates, pooled words instead of attention.

    Args:
        gate: weight of the decoder's own prediction, between 0 and 1.
    """

    reads_words = True
    parts = 2

    def __init__(self, site: Site, *, gate: Share = 0.8) -> None:
        super().__init__(site)
        self.gate = gate
        self.attention = MultiHeadAttention(site, heads=1)

    @classmethod
    def predictions(cls, num_layers: int, **options: Any) -> int:
        return cls.parts

    def forward(self, hidden: Tensor, history: History, source: Memory | None, flow: Flow) -> tuple[Tensor, ...]:
        assert source is not None
        source = source._replace(keys=source.keys.detach())
        e = self.attention.over(hidden.detach(), source, flow if flow.trace is None else replace(flow, trace=None))
        return hidden, e

    def shares(self) -> tuple[float, ...]:
        return self.gate, 1.0 - self.gate
