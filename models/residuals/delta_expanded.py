"""Deep delta learning with an expanded state, of Zhang 2026."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models.dropout import Dropout
from models.full_precision import full_precision
from models.registry import RESIDUALS
from models.seams import Residual
from models.site import Site


class Read(nn.Module):
    """x_d = sum_k r_k sum_i W_di X_d,k+i-left: a convolution of each row of X along its columns, then their weighted sum.

    W [D, kernel] U(+-1 / sqrt(kernel)), r = 1 / columns at the start (authors' code).
    """

    def __init__(self, d: int, columns: int, kernel: int) -> None:
        super().__init__()
        self.weight, self.read = nn.Parameter(torch.zeros(d, kernel)), nn.Parameter(torch.zeros(columns))

    def initialise(self, name: str, generator: torch.Generator) -> Tensor:
        if name == "read":
            return torch.full(self.read.shape, 1.0 / len(self.read))
        bound = self.weight.shape[1] ** -0.5
        return torch.empty(self.weight.shape).uniform_(-bound, bound, generator=generator)

    def forward(self, s: Tensor) -> Tensor:
        """X [.., D, V] -> [.., D]"""
        columns, kernel = len(self.read), self.weight.shape[1]
        padded = F.pad(self.weight, (columns, columns))
        starts = [columns + (kernel - 1) // 2 - k for k in range(columns)]
        share = torch.stack([padded[:, i : i + columns] for i in starts], dim=-1) @ self.read  # [D, V]
        return (s * share).sum(-1)


@RESIDUALS.register("delta_expanded")
class DeltaExpanded(Residual):
    """X + beta k (v - k^T X), k = y / |y|, beta = 2 s(w_b^T LN(x) + b), v = 4 s(W_v x + c) of `columns` numbers (Zhang 2026, deep delta
    learning, the code's form CC): x is read of X [D, columns] by a convolution along its columns and a weighted sum.

    X starts as copies of h_0. One read serves the sub-layers of a layer, another the output. b = c = 0, w and W_v N(0, .5 / sqrt(D)) at the
    start. Numbers in fp32. Not here: the code's convolution over time, which would mix positions.

    Args:
        columns: columns of the state X, 2 to 64.
        kernel: width of the convolution along the columns; at most as many as there are columns.
        rate: factor of the learning rate of this component's own parameters.
    """

    norms = ("pre",)
    streams = True

    def __init__(self, site: Site, *, columns: int = 4, kernel: int = 4, rate: float = 1.0) -> None:
        super().__init__(site)
        d = site.d_model
        self.rate, self.columns = rate, columns
        self.reader = site.shared.setdefault(f"delta.{site.side}.{site.layer}", Read(d, columns, kernel))
        if site.place:
            self.step, self.step_bias = nn.Parameter(torch.zeros(d)), nn.Parameter(torch.zeros(1))
            self.value, self.value_bias = nn.Parameter(torch.zeros(columns, d)), nn.Parameter(torch.zeros(columns))

    @classmethod
    def check(cls, site: dict[str, Any], **options: Any) -> str | None:
        columns, kernel = options.get("columns", 4), options.get("kernel", 4)
        if not 2 <= columns <= 64 or kernel > columns:
            return f"columns is {columns} and kernel {kernel}; expected 2 to 64 columns and a kernel of as many at most"
        return super().check(site, **options)

    def initialise(self, name: str, generator: torch.Generator) -> Tensor:
        value = torch.zeros(getattr(self, name).shape)
        return value if name.endswith("bias") else value.normal_(0.0, 0.5 * value.shape[-1] ** -0.5, generator=generator)

    def start(self, h_0: Tensor) -> Tensor:
        return h_0[..., None].expand(*h_0.shape, self.columns)

    def read(self, s: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        with full_precision(s):
            x = self.reader(s.float())
        return x, (s, x)

    def write(self, s: tuple[Tensor, Tensor], y: Tensor, x: Tensor, drop: Dropout) -> Tensor:
        y = drop(y)
        with full_precision(y):
            state, read, y, x = s[0].float(), s[1].float(), y.float(), x.float()
            k = y * (y.square().sum(-1, keepdim=True) + 1e-6).rsqrt()
            beta = 2.0 * torch.sigmoid((x * self.step).sum(-1, keepdim=True) + self.step_bias)
            v = 4.0 * torch.sigmoid(read @ self.value.T + self.value_bias)
            change = beta * (v - (k[..., None] * state).sum(-2))
            return state + k[..., None] * change[..., None, :]

    def end(self, s: Tensor) -> Tensor:
        with full_precision(s):
            return self.reader(s.float())
