"""Deep delta learning of Zhang 2026."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from models.dropout import Dropout
from models.full_precision import full_precision
from models.registry import RESIDUALS
from models.seams import Residual
from models.site import Site


@RESIDUALS.register("delta")
class Delta(Residual):
    """x + beta (v - k^T x) k, k = y / |y|, beta = 2 s(w_b^T LN(x) + b), v = 4 s(w_v^T x + c) (Zhang 2026, deep delta learning, d_v = 1).

    Of y only the direction counts. b = c = 0 at the start, so that beta is about 1; w N(0, .5 / sqrt(D)) (authors' code). Numbers in fp32.
    The code's expanded state of d_v columns, read by a convolution over time, is not here.

    Args:
        value: learned: v = 4 s(w_v^T x + c); constant: v = 2.
        rate: factor of the learning rate of this component's own parameters.
    """

    norms = ("pre",)

    def __init__(self, site: Site, *, value: Literal["learned", "constant"] = "learned", rate: float = 1.0) -> None:
        super().__init__(site)
        self.rate = rate
        d, learned = site.d_model, value == "learned"
        self.step, self.step_bias = nn.Parameter(torch.zeros(d)), nn.Parameter(torch.zeros(1))
        self.value = nn.Parameter(torch.zeros(d)) if learned else None
        self.value_bias = nn.Parameter(torch.zeros(1)) if learned else None

    def initialise(self, name: str, generator: torch.Generator) -> Tensor:
        if name.endswith("bias"):
            return torch.zeros(1)
        d = len(self.step)
        return torch.empty(d).normal_(0.0, 0.5 * d**-0.5, generator=generator)

    def write(self, s: Tensor, y: Tensor, x: Tensor, drop: Dropout) -> Tensor:
        y = drop(y)
        with full_precision(s):
            s, y, x = s.float(), y.float(), x.float()
            k = y * (y.square().sum(-1, keepdim=True) + 1e-6).rsqrt()
            beta = 2.0 * torch.sigmoid((x * self.step).sum(-1, keepdim=True) + self.step_bias)
            v: Tensor | float = 2.0
            if self.value is not None and self.value_bias is not None:
                v = 4.0 * torch.sigmoid((s * self.value).sum(-1, keepdim=True) + self.value_bias)
            return s + beta * (v - (k * s).sum(-1, keepdim=True)) * k
