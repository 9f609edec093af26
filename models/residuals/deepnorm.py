"""DeepNorm of Wang et al. 2022."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from models.dropout import Dropout
from models.registry import RESIDUALS
from models.seams import Residual
from models.site import Site


@RESIDUALS.register("deepnorm")
class DeepNorm(Residual):
    """LN(alpha x + y); initial values of the maps of values, attention's output and the FFN times beta (Wang et al. 2022, DeepNet, Fig. 2).

    N encoder and M decoder layers: alpha = .81 (N^4 M)^(1/16), beta = .87 (N^4 M)^(-1/16) in the encoder, alpha = (3M)^(1/4),
    beta = (12M)^(-1/4) in the decoder. The paper draws Xavier normal, the model's `init` stays here.

    Args:
        gain: the encoder's beta. paper: with the factor .87; torchscale: with 1.15, as the authors' code has it.
    """

    norms = ("post",)
    starts_as_identity = True  # beta, a part of the method, would do nothing to maps of zero

    def __init__(self, site: Site, *, gain: Literal["paper", "torchscale"] = "paper") -> None:
        super().__init__(site)
        n, m = site.config.encoder.num_layers, site.config.decoder.num_layers
        both = (n**4 * m) ** (1 / 16)
        encoder = site.side == "encoder"
        self.alpha = 0.81 * both if encoder else (3 * m) ** 0.25
        self.initial_gain = (0.87 if gain == "paper" else 1.15) / both if encoder else (12 * m) ** -0.25

    def write(self, s: Tensor, y: Tensor, x: Tensor, drop: Dropout) -> Tensor:
        return drop.add(self.alpha * s, y)
