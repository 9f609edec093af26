"""Position-wise feed-forward network."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn
from torch.nn import functional as F

from models.dropout import Dropout
from models.site import Site


class FeedForward(nn.Module):
    """W2 act(W1 x + b1) + b2 (Vaswani et al. 2017, Eq. 2)."""

    def __init__(self, site: Site, width: int | None = None, inner: int | None = None) -> None:
        super().__init__()
        self.inner = nn.Linear(width or site.d_model, inner or site.config.d_ff)
        self.outer = nn.Linear(inner or site.config.d_ff, width or site.d_model)
        self.dropout = Dropout(site.config.dropout.ffn)
        self.activation = getattr(F, site.config.activation)

    rectified: Callable[[Tensor], Tensor] | None = None
    """x -> max(W1 x + b1, 0) in one product, where `models.inference` has prepared one."""

    def forward(self, x: Tensor) -> Tensor:
        if self.rectified is not None:
            return self.outer(self.rectified(x))
        x = self.inner(x)
        return self.outer(self.dropout.relu(x) if self.activation is F.relu else self.dropout(self.activation(x)))
