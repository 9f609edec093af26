"""L2 penalty on the encoder's weights."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from models.registry import REGULARIZERS
from models.seams import WeightPenalty
from models.site import Site


class _SquaredSum(torch.autograd.Function):
    """sum ||W||^2 without a temporary tensor a matrix."""

    @staticmethod
    def forward(ctx: Any, *weights: Tensor) -> Tensor:
        ctx.save_for_backward(*weights)
        return torch.stack(torch._foreach_norm(weights)).float().square().sum()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, ...]:
        return tuple(torch._foreach_mul(ctx.saved_tensors, 2.0 * grad))


@REGULARIZERS.register("encoder_l2")
class EncoderL2(WeightPenalty):
    """loss + weight * sum ||W||^2 over the matrices of the encoder's layers and of its context's cell (Wei et al. 2020, section 4.1).

    Attention, feed-forward and gate maps; not embeddings, biases, norms and the scalars of a connection. It is part of the loss, so that
    Adam sees its gradient, and counts once per update however many micro-batches and workers share it.

    Args:
        weight: factor of the sum of squares in the loss.
    """

    def __init__(self, site: Site, *, weight: float = 1e-5) -> None:
        super().__init__(site)
        self.weight = weight

    def forward(self, encoder: nn.Module) -> Tensor:
        return _SquaredSum.apply(*(module.weight for module in encoder.modules() if isinstance(module, nn.Linear)))
