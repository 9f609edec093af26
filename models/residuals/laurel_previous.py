"""LAuReL over previous activations, of Menghani et al. 2025."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from models.dropout import Dropout
from models.registry import RESIDUALS
from models.seams import Residual
from models.site import Site

State = tuple[Tensor, tuple[Tensor, ...]]


@RESIDUALS.register("laurel_previous")
class LaurelPrevious(Residual):
    """x_i + y + h(sum_{j<i} g_ij x_j) (Menghani et al. 2025, LAuReL-PA, section 3), x_j what sub-layer j read.

    g are learned, 0 at the start (assumed).

    Args:
        rank: r > 0: h is B A, with A [r, D], B [D, r] by Glorot (assumed; with both factors of a product at 0 nothing would learn); 0: h is
            the identity.
        last: k > 0: the sum is over the k sub-layers below alone; 0: over all.
        rate: factor of the learning rate of this component's own parameters.
    """

    streams = True

    def __init__(self, site: Site, *, rank: int = 0, last: int = 0, rate: float = 1.0) -> None:
        super().__init__(site)
        self.rate, self.last = rate, last
        number = min(site.sublayer - 1, last) if last else site.sublayer - 1
        adds = site.place > 0 and number > 0
        self.shares = nn.Parameter(torch.zeros(number)) if adds else None
        self.inner = nn.Linear(site.d_model, rank, bias=False) if adds and rank else None
        self.outer = nn.Linear(rank, site.d_model, bias=False) if adds and rank else None

    def initialise(self, name: str, generator: torch.Generator) -> Tensor:
        return torch.zeros(getattr(self, name).shape)

    def start(self, h_0: Tensor) -> State:
        """(x_i, what the sub-layers below read)"""
        return h_0, ()

    def read(self, s: State) -> tuple[Tensor, State]:
        return s[0], s

    def write(self, s: State, y: Tensor, x: Tensor, drop: Dropout) -> State:
        now, below = s
        after = drop.add(now, y)
        if self.shares is not None:
            previous = torch.tensordot(self.shares, torch.stack(below), dims=1)
            if self.inner is not None and self.outer is not None:
                previous = self.outer(self.inner(previous))
            after = after + previous
        below = (*below, now)
        return after, below[-self.last :] if self.last else below

    def normed(self, s: State, norm: nn.Module) -> State:
        return norm(s[0]), s[1]

    def end(self, s: State) -> Tensor:
        return s[0]

    def weights(self, s: Any = None) -> dict[str, Tensor]:
        """g; a source is what a sub-layer below read, of the last ones where there are fewer."""
        return {} if self.shares is None else {"sources": self.shares}
