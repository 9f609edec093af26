"""Manifold-constrained hyper-connections with one map for all streams, a public reading of Xie et al. 2025."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, nn

from models.registry import RESIDUALS
from models.residuals.hyper import Hyper
from models.sinkhorn import sinkhorn
from models.site import Site
from models.stream_mix import normed_product


@RESIDUALS.register("manifold_streams")
class ManifoldStreams(Hyper):
    """Hyper-connections with m = s(l_m), R = Sinkhorn(l_R), w = 2 s_w s(h W_w) + b_w (lucidrains' reading of mHC).

    l_m and l_R are s * h W + b of each stream a by itself, h = g * rms(H_a), where mHC has all streams before one map; row a of R is stream
    a's. Sinkhorn: exp, then columns and rows in turn to sum 1. At the start W = 0, s = .01, b_m = 1 for stream i - 1 modulo n in sub-layer
    i and 0 for others, b_R = I, b_w = 1: R is Sinkhorn(I), .475 on its diagonal for n = 4.

    Args:
        streams: n, 1 to 64.
        iterations: how often Sinkhorn brings columns and rows to sum 1.
        first: what i counts at the start: each sublayer, or each layer.
        rate: factor of the learning rate of this component's own parameters.
    """

    norms = ("pre",)

    def __init__(
        self, site: Site, *, streams: int = 4, iterations: int = 20, first: Literal["sublayer", "layer"] = "sublayer", rate: float = 1.0
    ) -> None:
        super().__init__(site, streams=streams, tanh=False, first=first, stream_norm="rms", rate=rate)
        self.iterations = iterations
        if site.place:
            self.scale = nn.Parameter(torch.zeros(3))  # of m, of R, of w

    @classmethod
    def check(cls, site: dict[str, Any], **options: Any) -> str | None:
        return super().check(site, **{name: value for name, value in options.items() if name != "iterations"})

    def _coefficients(self, s: Tensor) -> tuple[Tensor, Tensor]:
        """([B, T, n, n + 2]: of stream a m_a, R_a1 .. R_an, w_a; s as it goes on)"""
        assert self.weight is not None and self.scale is not None and self.gain is not None
        n = self.n
        c, s = normed_product(s, self.gain[:, None] * self.weight, self.eps)
        m, r, w = c.split((1, n, 1), dim=-1)
        m = torch.sigmoid(self.scale[0] * m + self.static[:, :1])
        r = sinkhorn(self.scale[1] * r + self.static[:, 1:-1], self.iterations, (-2, -1))
        w = 2.0 * self.scale[2] * torch.sigmoid(w) + self.static[:, -1:]
        return torch.cat((m, r, w), dim=-1), s
