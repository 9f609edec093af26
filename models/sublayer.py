"""Residual, norm and dropout around a function: the order is the model's `norm`."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

from models.dropout import Dropout
from models.site import Site


class SubLayer(nn.Module):
    """pre: x + drop(f(LN(x))); post: LN(x + drop(f(x))) (Vaswani et al. 2017, section 3.1 and its pre-norm form)."""

    def __init__(self, site: Site, width: int | None = None) -> None:
        super().__init__()
        self.norm = site.layer_norm(width)
        self.dropout = Dropout(site.config.dropout.residual)
        self.pre = site.norm == "pre"

    def forward(self, x: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
        if self.pre:
            return self.dropout.add(x, function(self.norm(x)))
        return self.norm(self.dropout.add(x, function(x)))
