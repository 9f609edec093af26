"""Gated recurrent units, a forward and a backward one side by side.

Shapes: d units of a direction, D width of the input; the leading 2 are the directions. Rows of the weights: a gate after
the other, reset, update, candidate.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models.initialise import uniform_bound
from models.site import Site

GruKind = Literal["recipe", "torch"]


class Gru(nn.Module):
    """h' = (1 - u) * h + u * c (Cho et al. 2014), in the form of THUMT's legacy cell: only the candidate has a bias, and the reset gate
    stands before the product.

    r = s(W_r [x; h]), u = s(W_u [x; h]), c = tanh(W_c [x; r * h] + b): 3 (D + d) d + d numbers a direction.
    """

    kind: GruKind = "recipe"

    def __init__(self, site: Site, d_input: int) -> None:
        super().__init__()
        d = site.d_model
        self.fan_in, self.fan_out, self.scheme = d_input + d, d, site.config.init
        self.input = nn.Parameter(torch.zeros(2, 3 * d, d_input))
        self.state = nn.Parameter(torch.zeros(2, 3 * d, d))
        self._biases(d)

    def _biases(self, d: int) -> None:
        self.bias = nn.Parameter(torch.zeros(2, d))

    def input_offset(self) -> Tensor:
        """[2, 3d]: what is added to the products of the input."""
        return F.pad(self.bias, (2 * self.fan_out, 0))

    def state_offset(self) -> Tensor | None:
        """[2, 3d]: what is added to the products of the state."""
        return None

    def products(self, x: Tensor) -> Tensor:
        """The input's part of all gates, W x + b: [..., D] -> [..., 2, 3d]."""
        return F.linear(x, self.input.flatten(0, 1), self.input_offset().flatten()).unflatten(-1, (2, -1))

    def initialise(self, name: str, generator: torch.Generator) -> Tensor:
        """Each gate's matrix [W; U] as one map from D + d to d."""
        value = torch.empty(self.get_parameter(name).shape)
        if name not in ("input", "state") and self.scheme != "fan-in":
            return value.zero_()
        bound = uniform_bound(self.scheme, self.fan_in, self.fan_out)
        return value.uniform_(-bound, bound, generator=generator)


class TorchGru(Gru):
    """torch.nn.GRU's form: biases on all maps, and the reset gate behind the product.

    r = s(W_r x + b_r + U_r h + b'_r), z likewise, c = tanh(W_c x + b_c + r * (U_c h + b'_c)), h' = (1 - z) * c + z * h:
    3 (D + d) d + 6d numbers a direction. (torch initialises with U(+-1/sqrt(d)); here the model's own scheme holds.)
    """

    kind = "torch"

    def _biases(self, d: int) -> None:
        self.input_bias = nn.Parameter(torch.zeros(2, 3 * d))
        self.state_bias = nn.Parameter(torch.zeros(2, 3 * d))

    def input_offset(self) -> Tensor:
        return self.input_bias

    def state_offset(self) -> Tensor | None:
        return self.state_bias


GRUS: dict[str, type[Gru]] = {"recipe": Gru, "torch": TorchGru}
