"""Residual, norm and dropout around a function, and the position-wise feed-forward network."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F

from models.config import options
from models.dropout import Dropout
from models.registry import RESIDUALS
from models.seams import Residual
from models.site import Site


class SubLayer(nn.Module):
    """pre: x + drop(f(LN(x))); post: LN(x + drop(f(x))) (Vaswani et al. 2017, section 3.1 and its pre-norm form); none: without LN.

    Where the side has another residual than `plain`, it says what f reads and how its output joins; each view has a norm of its own.
    """

    def __init__(self, site: Site, width: int | None = None) -> None:
        super().__init__()
        component = site.stack.residual if site.place else {"kind": "plain"}
        self.residual: Residual = RESIDUALS.get(component["kind"])(site, **options(component))
        self.norm: nn.Module = nn.Identity() if site.norm == "none" else site.layer_norm(width)
        self.dropout = Dropout(site.config.dropout.residual)
        self.pre = site.norm == "pre"
        self.others = nn.ModuleList(site.layer_norm(width) for _ in range(self.residual.views - 1 if self.pre else 0))

    def forward(self, s: Any, function: Callable[..., Tensor]) -> Any:
        """s: the stream, [B, T, D] unless the residual has several -> the stream behind the sub-layer"""
        residual = self.residual
        x, s = residual.read(s)
        if residual.views > 1:
            x, *others = (norm(v) for norm, v in zip((self.norm, *self.others), x, strict=True)) if self.pre else x
            y = function(x, *others)
        else:
            x = self.norm(x) if self.pre else x
            y = function(x)
        s = residual.write(s, y, x, self.dropout)
        return s if self.pre else residual.normed(s, self.norm)


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
