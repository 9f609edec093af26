"""Learned augmented residuals of Menghani et al. 2025."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, nn

from models.dropout import Dropout
from models.registry import RESIDUALS
from models.seams import Residual
from models.site import Site


@RESIDUALS.register("laurel")
class Laurel(Residual):
    """a y + b (x + B A x) (Menghani et al. 2025, LAuReL-RW, -LR and both; section 3).

    (a, b) is `total` times the softmax or sigmoid of two logits, 0 at the start.

    Args:
        weights: whether a and b are learned; else they are 1.
        rank: r of A [r, D] and B [D, r], B = 0 at the start (assumed); 0: neither is there.
        squash: function of the two logits that a and b come from; the paper says "softmax or sigmoid".
        total: factor of that function; 2 starts at a = b = 1 (the paper gives no scale).
        rate: factor of the learning rate of this component's own parameters.
    """

    def __init__(
        self,
        site: Site,
        *,
        weights: bool = True,
        rank: int = 0,
        squash: Literal["softmax", "sigmoid"] = "softmax",
        total: float = 2.0,
        rate: float = 1.0,
    ) -> None:
        super().__init__(site)
        self.squash, self.total, self.rate = squash, total, rate
        self.logits = nn.Parameter(torch.zeros(2)) if weights else None
        self.inner = nn.Linear(site.d_model, rank, bias=False) if rank else None
        self.outer = nn.Linear(rank, site.d_model, bias=False) if rank else None
        if self.outer is not None:
            self.outer.starts_at_zero = True  # type: ignore[assignment]

    @classmethod
    def check(cls, site: dict[str, Any], **options: Any) -> str | None:
        if not options.get("weights", True) and not options.get("rank", 0):
            return "found weights false and rank 0, which is residual plain; expected weights true or rank 1 or more"
        total = options.get("total", 2.0)
        return cls.check_rate(options) if total > 0 else f"total is {total}; expected more than 0"

    def initialise(self, name: str, generator: torch.Generator) -> Tensor:
        return torch.zeros(2)

    def write(self, s: Tensor, y: Tensor, x: Tensor, drop: Dropout) -> Tensor:
        if self.inner is not None and self.outer is not None:
            s = s + self.outer(self.inner(s))
        if self.logits is None:
            return drop.add(s, y)
        a, b = self.total * (self.logits.softmax(0) if self.squash == "softmax" else self.logits.sigmoid())
        return a * drop(y) + b * s

    def weights(self, s: Any = None) -> dict[str, Tensor]:
        """Of the form without a low-rank map, which is no number a source."""
        if self.logits is None or self.inner is not None:
            return {}
        a, b = self.total * (self.logits.softmax(0) if self.squash == "softmax" else self.logits.sigmoid())
        return {"read": torch.ones_like(a)[None], "keep": b[None, None], "write": a[None]}
