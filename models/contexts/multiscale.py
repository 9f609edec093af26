"""Contextual collaboration of Wei et al. 2020: one cell runs over the encoder's blocks."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models.initialise import uniform_bound
from models.registry import CONTEXTS
from models.seams import Context
from models.site import Site


class GateMap(nn.Linear):
    """Maps to reset, update and candidate, one below the other; each gate's [W; U] is initialised as one map from 2d to d."""

    def __init__(self, site: Site) -> None:
        super().__init__(site.d_model, 3 * site.d_model)
        self.scheme = site.config.init

    def initialise(self, name: str, generator: torch.Generator) -> Tensor:
        d = self.in_features
        value = torch.empty(self.get_parameter(name).shape)
        if name == "bias" and self.scheme != "fan-in":
            return value.zero_()
        bound = uniform_bound(self.scheme, 2 * d, d)
        return value.uniform_(-bound, bound, generator=generator)


class GruCell(nn.Module):
    """r, z = s(W x + b + U h + b'); c = tanh(W_c x + b_c + r * (U_c h + b'_c)); h' = (1 - z) * c + z * h: 6 d^2 + 6 d numbers."""

    def __init__(self, site: Site) -> None:
        super().__init__()
        self.input, self.state = GateMap(site), GateMap(site)

    def forward(self, h: Tensor, x: Tensor) -> Tensor:
        (a_r, a_z, a_c), (b_r, b_z, b_c) = self.input(x).chunk(3, dim=-1), self.state(h).chunk(3, dim=-1)
        r, z = torch.sigmoid(a_r + b_r), torch.sigmoid(a_z + b_z)
        c = torch.tanh(a_c + r * b_c)
        return (1.0 - z) * c + z * h


class FfnCell(nn.Module):
    """h' = W2 max(W1 [h; x] + b1, 0) + b2, 2d -> d_ff -> d (the paper gives no width)."""

    def __init__(self, site: Site) -> None:
        super().__init__()
        self.inner = nn.Linear(2 * site.d_model, site.config.d_ff)
        self.outer = nn.Linear(site.config.d_ff, site.d_model)

    def forward(self, h: Tensor, x: Tensor) -> Tensor:
        return self.outer(F.relu(self.inner(torch.cat((h, x), dim=-1))))


@CONTEXTS.register("multiscale")
class MultiscaleContext(Context):
    """C^n = cell(C^{n-1}, b^n), C^0 = h_0 (Wei et al. 2020, Eq. 7): one cell for all blocks and positions, nothing runs along the sentence.

    C^0 is the embedded source sentence; b^n is block n's output behind the encoder's final norm.

    Args:
        blocks: blocks of the encoder, of equal height; a divisor of its number of layers.
        cell: gru: a GRU cell; ffn: a feed-forward network of both, d_ff wide inside.
    """

    def __init__(self, site: Site, *, blocks: int = 6, cell: Literal["gru", "ffn"] = "gru") -> None:
        super().__init__(site)
        self.blocks = blocks
        self.cell = GruCell(site) if cell == "gru" else FfnCell(site)

    @classmethod
    def check(cls, site: dict[str, Any], **options: Any) -> str | None:
        return uneven(options.get("blocks", 6), site["encoder_layers"])

    def forward(self, below: Tensor, block: Tensor) -> Tensor:
        return self.cell(below, block)


def uneven(blocks: int, layers: int) -> str | None:
    """What is wrong with `blocks` blocks of equal height in an encoder of `layers` layers."""
    if layers % blocks == 0:
        return None
    fitting = ", ".join(str(n) for n in range(1, layers + 1) if layers % n == 0)
    return f"found blocks {blocks}, which do not divide the encoder's {layers} layers; expected one of {fitting}"
