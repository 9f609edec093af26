"""Frac-connections of Zhu et al. 2025: hyper-connections between slices of one stream."""

from typing import Annotated, Any

import torch
from torch import Tensor

from models.config import Bounds
from models.dropout import Dropout
from models.initialise import starts_as
from models.precision import full_precision
from models.registry import RESIDUALS
from models.residuals.hyper import normed_product
from models.seams import Residual
from models.site import Site

State = tuple[Tensor, Tensor, Tensor]
"""State between `read` and `write`: slices [B, T, m, D/m], R [.., m, m] and w [.., m]."""


@RESIDUALS.register("fractions")
class Fractions(Residual):
    """x_b = sum_a Y_ab H_a, H'_b = sum_a R_ab H_a + w_b y_b; H, x and y are split into m slices (Zhu et al. 2025, Frac-Connections).

    Y, R and w are s * tanh(LN(H_a) W) plus a static part, separately for each token and slice. LN has no gain. At the start W = 0, s = .01,
    Y = R = I and w = 1, which gives the plain network. Coefficients and slices are fp32.

    Args:
        parts: m, a divisor of d_model.
    """

    norm_orders = ("pre",)
    streams = True

    def __init__(self, site: Site, *, parts: Annotated[int, Bounds(ge=1, le=64)] = 4) -> None:
        super().__init__(site)
        self.parts, self.eps = parts, site.config.norm_eps
        if not site.place:
            return
        static = torch.ones(parts, 2 * parts + 1)
        static[:, :-1] = 0.0
        for identity in (static[:, :parts], static[:, parts:-1]):
            identity.fill_diagonal_(1.0)
        self.static = starts_as(static)  # of slice a: Y_a1 .. Y_am, R_a1 .. R_am, w_a
        self.weight = starts_as(torch.zeros(site.d_model // parts, 2 * parts + 1))
        self.scale = starts_as(torch.full((2,), 0.01))  # of Y and R, of w

    @classmethod
    def check(cls, site: dict[str, Any], **options: Any) -> str | None:
        if site["d_model"] % options.get("parts", 4):
            return f"parts is {options.get('parts', 4)}; expected a divisor of d_model, {site['d_model']}"
        return super().check(site, **options)

    def start(self, h_0: Tensor) -> Tensor:
        return h_0.unflatten(-1, (self.parts, -1))

    def coefficients(self, s: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Returns Y and R [.., m, m], w [.., m] and s. Later reads must use the returned s (`normed_product`)."""
        m = self.parts
        product, s = normed_product(s, self.weight, self.eps, centred=True)
        c = self.static + torch.cat((self.scale[:1].expand(2 * m), self.scale[1:])) * torch.tanh(product)
        return c[..., :m], c[..., m:-1], c[..., -1], s

    def read(self, s: Tensor) -> tuple[Tensor, State]:
        with full_precision(s):
            y, r, w, s = self.coefficients(s.float())
            return (y.mT @ s).flatten(-2), (s, r, w)

    def write(self, s: State, y: Tensor, x: Tensor, drop: Dropout) -> Tensor:
        slices, r, w = s
        with full_precision(y):
            return r.mT @ slices + w[..., None] * drop(y).unflatten(-1, (self.parts, -1))

    def end(self, s: Tensor) -> Tensor:
        return s.flatten(-2)
