"""Layer diversity of Dou et al. 2018."""

from __future__ import annotations

from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from models.registry import REGULARIZERS
from models.seams import Regularizer
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
