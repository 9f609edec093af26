"""Layer diversity of Dou et al. 2018, and an L2 penalty on the encoder's weights."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models.registry import REGULARIZERS
from models.seams import Regularizer, WeightPenalty
from models.site import History, Site


@REGULARIZERS.register("diversity")
class Diversity(Regularizer):
    """D = mean over l = 1..L-1 and over real positions of 1 - cos^2(H^l, H^{l+1}) (Dou et al. 2018, Eq. 8-10); loss = NLL - weight * D.

    H^l are the layers' outputs, not aggregation nodes. The sum returned is of cos^2 - 1, so that the loss adds it.

    Args:
        weight: factor of D in the loss (the paper's lambda).
        sides: the stacks whose layers count: both, encoder or decoder.
    """

    def __init__(self, site: Site, *, weight: float = 1.0, sides: Literal["both", "encoder", "decoder"] = "both") -> None:
        super().__init__(site)
        self.weight, self.sides = weight, sides

    def applies(self, side: str) -> bool:
        return self.sides in ("both", side)

    def forward(self, history: History, mask: Tensor) -> tuple[Tensor, Tensor]:
        layers = history.kept[1:]
        total = torch.zeros((), device=mask.device)
        for below, above in pairwise(layers):
            cosine = F.cosine_similarity(below.float(), above.float(), dim=-1)
            total = total + ((cosine.square() - 1.0) * mask).sum()
        return total, mask.sum() * max(1, len(layers) - 1)


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
