"""Bidirectional gated recurrent units, and the arithmetic of their scans with hand-written gradients.

Shapes: d units per direction, D width of the input, P rows of all steps, n rows of one step; a leading 2 is the directions. Rows of the
weights: reset, update, candidate. tanh x is computed as 2 s(2x) - 1: on a CPU, torch's tanh is several times slower than its sigmoid.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models.initialise import uniform_bound
from models.site import Site


class Gru(nn.Module):
    """h' = (1 - u) * h + u * c (Cho et al. 2014), in the form of THUMT's legacy cell.

    Only the candidate has a bias, and the reset gate is applied before the product: r = s(W_r [x; h]), u = s(W_u [x; h]),
    c = tanh(W_c [x; r * h] + b). It has 3 (D + d) d + d parameters per direction."""

    def __init__(self, site: Site, d_input: int) -> None:
        super().__init__()
        d = site.d_model
        self.fan_in, self.fan_out, self.scheme = d_input + d, d, site.config.init
        self.input = nn.Parameter(torch.zeros(2, 3 * d, d_input))
        self.state = nn.Parameter(torch.zeros(2, 3 * d, d))
        self.bias = nn.Parameter(torch.zeros(2, d))

    def input_offset(self) -> Tensor:
        """Returns the bias of the input's products: [2, 3d]."""
        return F.pad(self.bias, (2 * self.fan_out, 0))

    def products(self, x: Tensor) -> Tensor:
        """Returns the input's part of all gates, W x + b: [..., D] -> [..., 2, 3d]."""
        return F.linear(x, self.input.flatten(0, 1), self.input_offset().flatten()).unflatten(-1, (2, -1))

    def initialise(self, name: str, generator: torch.Generator) -> Tensor:
        """Draws each gate's matrix [W; U] as one map from D + d to d."""
        value = torch.empty(self.get_parameter(name).shape)
        if name == "bias" and self.scheme != "fan-in":
            return value.zero_()
        bound = uniform_bound(self.scheme, self.fan_in, self.fan_out)
        return value.uniform_(-bound, bound, generator=generator)


def add_product(x: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """Adds the batched product a b to x in place. torch's operation counter counts this form."""
    return torch.baddbmm(x, a, b, out=x)


def tanh_(x: Tensor) -> Tensor:
    return x.tanh_() if x.is_cuda else x.mul_(2.0).sigmoid_().mul_(2.0).sub_(1.0)


class Cell:
    """h' = (1 - u) h + u c, c = tanh(a_c + W_c (r h)), [r; u] = s(a + W h).

    gates [2, P, 2d] and candidate [2, P, d] hold the input's products. A step overwrites them with the values of gates and candidate.
    """

    def __init__(self, gates: Tensor, candidate: Tensor, weight: Tensor) -> None:
        self.gates, self.candidate, d = gates, candidate, candidate.shape[-1]
        self.r, self.u = gates.chunk(2, dim=-1)
        self.to_gates, self.to_candidate = weight[:, : 2 * d], weight[:, 2 * d :]
        # a product with a contiguous second matrix is 1.5 times as fast
        self.of_gates, self.of_candidate = self.to_gates.mT.contiguous(), self.to_candidate.mT.contiguous()
        self.reset = torch.zeros_like(candidate)

    def step(self, at: slice, h: Tensor, out: Tensor) -> None:
        """Writes the states after step `at` to `out`. h: the states before it; h, out: [2, n, d]."""
        add_product(self.gates[:, at], h, self.of_gates).sigmoid_()
        reset = torch.mul(self.r[:, at], h, out=self.reset[:, at])
        c = tanh_(add_product(self.candidate[:, at], reset, self.of_candidate))
        torch.lerp(h, c, self.u[:, at], out=out)

    def begin(self, before: Tensor) -> None:
        """Prepares the backward pass. `before` [2, P, d]: the state before each row's step."""
        r, u, c = self.r, self.u, self.candidate
        self.before, self.keep = before, 1.0 - u
        self.by_c = torch.addcmul(u, u * c, c, value=-1.0)
        self.by_u = (c - before).mul_(u).mul_(self.keep)
        self.by_r = torch.addcmul(r, r, r, value=-1.0).mul_(before)
        self.d_gates, self.d_candidate = torch.zeros_like(self.gates), torch.zeros_like(c)

    def back(self, at: slice, dh: Tensor) -> None:
        """Turns dh, the gradient of the states after step `at`, into the gradient of the states before it, in place."""
        d_r, d_u = self.d_gates[:, at].chunk(2, dim=-1)
        d_c = torch.mul(dh, self.by_c[:, at], out=self.d_candidate[:, at])
        torch.mul(dh, self.by_u[:, at], out=d_u)
        d_reset = torch.bmm(d_c, self.to_candidate)
        torch.mul(d_reset, self.by_r[:, at], out=d_r)
        add_product(dh.mul_(self.keep[:, at]).addcmul_(d_reset, self.r[:, at]), self.d_gates[:, at], self.to_gates)

    def weight_gradient(self) -> Tensor:
        """Returns the gradient of the state's weight: [2, 3d, d]."""
        return torch.cat((torch.bmm(self.d_gates.mT, self.before), torch.bmm(self.d_candidate.mT, self.reset)), dim=1)
