"""Bidirectional gated recurrent units, and the arithmetic of their scans with hand-written gradients.

Shapes: d units per direction, D width of the input, P rows of all steps, n rows of one step; a leading 2 is the directions. Rows of the
weights: reset, update, candidate. tanh x is computed as 2 s(2x) - 1: on a CPU, torch's tanh is several times slower than its sigmoid.
"""

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models.initialise import uniform_bound
from models.site import Site

GruKind = Literal["recipe", "torch"]


class Gru(nn.Module):
    """h' = (1 - u) * h + u * c (Cho et al. 2014) of two kinds.

    recipe: THUMT's legacy cell. Only the candidate has a bias, and the reset gate is applied before the product: r = s(W_r [x; h]),
    u = s(W_u [x; h]), c = tanh(W_c [x; r * h] + b). It has 3 (D + d) d + d parameters per direction.

    torch: torch.nn.GRU's form. All maps have biases, and the reset gate is applied after the product: r = s(W_r x + b_r + U_r h + b'_r), z
    likewise, c = tanh(W_c x + b_c + r * (U_c h + b'_c)), h' = (1 - z) * c + z * h. It has 3 (D + d) d + 6d parameters per direction. torch
    initialises with U(+-1/sqrt(d)); here the model's scheme applies."""

    def __init__(self, site: Site, d_input: int, kind: str) -> None:
        super().__init__()
        d = site.d_model
        self.kind, self.fan_in, self.fan_out, self.scheme = kind, d_input + d, d, site.config.init
        self.input = nn.Parameter(torch.zeros(2, 3 * d, d_input))
        self.state = nn.Parameter(torch.zeros(2, 3 * d, d))
        if kind == "recipe":
            self.bias = nn.Parameter(torch.zeros(2, d))
        else:
            self.input_bias, self.state_bias = (nn.Parameter(torch.zeros(2, 3 * d)) for _ in range(2))

    def input_offset(self) -> Tensor:
        """Returns the bias of the input's products: [2, 3d]."""
        return F.pad(self.bias, (2 * self.fan_out, 0)) if self.kind == "recipe" else self.input_bias

    def state_offset(self) -> Tensor | None:
        """Returns the bias of the state's products: [2, 3d]; None: no bias."""
        return None if self.kind == "recipe" else self.state_bias

    def products(self, x: Tensor) -> Tensor:
        """Returns the input's part of all gates, W x + b: [..., D] -> [..., 2, 3d]."""
        return F.linear(x, self.input.flatten(0, 1), self.input_offset().flatten()).unflatten(-1, (2, -1))

    def initialise(self, name: str, generator: torch.Generator) -> Tensor:
        """Draws each gate's matrix [W; U] as one map from D + d to d."""
        value = torch.empty(self.get_parameter(name).shape)
        if name not in ("input", "state") and self.scheme != "fan-in":
            return value.zero_()
        bound = uniform_bound(self.scheme, self.fan_in, self.fan_out)
        return value.uniform_(-bound, bound, generator=generator)


def add_product(x: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """Adds the batched product a b to x in place. torch's operation counter counts this form."""
    return torch.baddbmm(x, a, b, out=x)


def tanh_(x: Tensor) -> Tensor:
    return x.tanh_() if x.is_cuda else x.mul_(2.0).sigmoid_().mul_(2.0).sub_(1.0)


class RecipeCell:
    """h' = (1 - u) h + u c, c = tanh(a_c + W_c (r h)), [r; u] = s(a + W h).

    gates [2, P, 2d] and candidate [2, P, d] hold the input's products. A step overwrites them with the values of gates and candidate.
    """

    def __init__(self, gates: Tensor, candidate: Tensor, weight: Tensor, bias: Tensor | None) -> None:
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

    def weight_gradients(self) -> tuple[Tensor, Tensor | None]:
        """Returns the gradients of the state's weight [2, 3d, d] and bias [2, 3d]."""
        of_gates = torch.bmm(self.d_gates.mT, self.before)
        return torch.cat((of_gates, torch.bmm(self.d_candidate.mT, self.reset)), dim=1), None


class TorchCell:
    """h' = (1 - z) c + z h, c = tanh(a_c + r b_c), [r; z] = s(a + b), b = W h + bias."""

    def __init__(self, gates: Tensor, candidate: Tensor, weight: Tensor, bias: Tensor | None) -> None:
        assert bias is not None
        self.gates, self.candidate = gates, candidate
        self.r, self.z = gates.chunk(2, dim=-1)
        self.weight, self.transposed, self.bias = weight, weight.mT.contiguous(), bias[:, None]
        self.products = candidate.new_zeros(*candidate.shape[:2], weight.shape[1])

    def step(self, at: slice, h: Tensor, out: Tensor) -> None:
        width = self.gates.shape[-1]
        products = torch.baddbmm(self.bias, h, self.transposed, out=self.products[:, at])
        self.gates[:, at].add_(products[..., :width]).sigmoid_()
        c = tanh_(self.candidate[:, at].addcmul_(self.r[:, at], products[..., width:]))
        torch.lerp(c, h, self.z[:, at], out=out)

    def begin(self, before: Tensor) -> None:
        r, z, c, width = self.r, self.z, self.candidate, self.gates.shape[-1]
        self.before, update = before, 1.0 - z
        self.by_c = torch.addcmul(update, update * c, c, value=-1.0)
        self.by_z = (before - c).mul_(z).mul_(update)
        self.by_r = torch.addcmul(r, r, r, value=-1.0).mul_(self.products[..., width:])
        self.d_products, self.d_candidate = torch.zeros_like(self.products), torch.zeros_like(c)
        self.d_gates = self.d_products[..., :width]

    def back(self, at: slice, dh: Tensor) -> None:
        d_r, d_z, d_b = self.d_products[:, at].chunk(3, dim=-1)
        d_c = torch.mul(dh, self.by_c[:, at], out=self.d_candidate[:, at])
        torch.mul(dh, self.by_z[:, at], out=d_z)
        torch.mul(d_c, self.by_r[:, at], out=d_r)
        torch.mul(d_c, self.r[:, at], out=d_b)
        add_product(dh.mul_(self.z[:, at]), self.d_products[:, at], self.weight)

    def weight_gradients(self) -> tuple[Tensor, Tensor | None]:
        return torch.bmm(self.d_products.mT, self.before), self.d_products.sum(1)


CELLS: dict[str, type[RecipeCell] | type[TorchCell]] = {"recipe": RecipeCell, "torch": TorchCell}
