"""Transparent attention of Bapna et al. 2018: each decoder layer attends to a mixture of all encoder layers."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from models.dropout import Dropout
from models.memory import Memory
from models.registry import BRIDGES
from models.seams import Bridge
from models.site import Flow, History, Site


class _Mixtures(torch.autograd.Function):
    """z_m = sum_i w_{i,m} h_i for all m at once; of the states only references are kept."""

    @staticmethod
    def forward(ctx: Any, weights_KN: Tensor, *states: Tensor) -> Tensor:
        ctx.save_for_backward(weights_KN, *states)
        with torch.autocast(weights_KN.device.type, enabled=False):
            return torch.tensordot(weights_KN.to(states[0].dtype), torch.stack(states), dims=([0], [0]))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, ...]:
        weights_KN, *states = ctx.saved_tensors
        with torch.autocast(grad.device.type, enabled=False):
            d_weights = torch.mm(torch.stack(states).flatten(1), grad.flatten(1).t())
            d_states = torch.tensordot(weights_KN.to(grad.dtype), grad, dims=([1], [0]))
        return d_weights, *d_states.unbind(0)


@BRIDGES.register("transparent")
class TransparentBridge(Bridge):
    """memories_m = (LN(sum_{i=0}^{L} softmax_i(drop(s_m + 1/(L+1))) h_i),) for decoder layer m (Bapna et al. 2018, section 4).

    s starts at 0, that is from the average; dropout and the constant 1/(L+1), which matters under dropout alone, are Lingvo's
    (WeightedSumLayer). h_0: the embedded source. In pre-norm the mixtures share one norm, in place of the encoder's final one, which is
    not built; post-norm has none.

    Args:
        dropout: probability of dropout of the scores s_m + 1/(L+1).
    """

    needs_output = False
    reads_layers = True

    def __init__(self, site: Site, *, dropout: float = 0.1) -> None:
        super().__init__(site)
        states = site.config.encoder.num_layers + 1
        self.scalars = nn.Parameter(torch.zeros(states, site.num_layers))
        self.dropout = Dropout(dropout)
        self.norm = site.layer_norm() if site.norm == "pre" else nn.Identity()

    def initialise(self, name: str, generator: torch.Generator) -> Tensor:
        return torch.zeros(self.scalars.shape)

    @classmethod
    def check(cls, site: dict[str, Any], **options: Any) -> str | None:
        dropout = options.get("dropout", 0.1)
        return None if 0.0 <= dropout < 1.0 else f"dropout is {dropout}; expected at least 0 and below 1"

    def forward(self, encoded: Tensor, history: History, extra: Memory | None, flow: Flow) -> list[tuple[Memory, ...]]:
        weights = self.dropout(self.scalars + 1.0 / len(self.scalars)).softmax(dim=0)
        mixtures = self.norm(_Mixtures.apply(weights, *history.kept))
        return [(flow.memory(z),) for z in mixtures.unbind(0)]

    def weights(self, s: Any = None) -> dict[str, Tensor]:
        """softmax s_m; a reader is a decoder layer, a source h_0 .. h_L."""
        return {"layers": self.scalars.softmax(0).T}
