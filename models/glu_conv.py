"""A convolution over positions with a gated linear unit.

Shapes: B or N rows, T positions, C input width, D output width, k kernel.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models.dropout import Dropout
from models.linear import linear
from models.site import Flow, Site


class GluConv(nn.Module):
    """y_t = GLU(W [drop(x)_{t-r}; ..; drop(x)_{t+r}] + b), GLU([u; v]) = u * s(v) (Gehring et al. 2017; Shen et al. 2018, Eq. 5).

    W is [2D, k C], the earliest position first. Outside the sentence, x is 0: on both sides and at padding in an encoder; in a decoder the
    window ends at t, and a cache keeps its last k - 1 inputs.
    """

    def __init__(self, site: Site, d_in: int, d_out: int, kernel: int) -> None:
        super().__init__()
        p = site.config.dropout.residual
        self.kernel, self.causal = kernel, site.side == "decoder"
        self.dropout = Dropout(p)
        self.map = linear(site.config, kernel * d_in, 2 * d_out, dropped=p, gated=True)

    def forward(self, x_BTC: Tensor, flow: Flow) -> Tensor:
        return F.glu(self.map(self._windows(self.dropout(x_BTC), flow)), dim=-1)

    def _windows(self, x_BTC: Tensor, flow: Flow) -> Tensor:
        """[B, T, k C]"""
        k, length = self.kernel, x_BTC.shape[1]
        if k == 1:
            return x_BTC
        if not self.causal:
            assert flow.mask is not None
            x_BTC = F.pad(x_BTC * flow.mask[:, :, None].to(x_BTC.dtype), (0, 0, k // 2, k // 2))
        elif flow.cache is None:
            x_BTC = F.pad(x_BTC, (0, 0, k - 1, 0))
        else:
            x_BTC = flow.cache.recent(self, x_BTC, k - 1)
        if length == 1:
            return x_BTC.flatten(1)[:, None]
        return torch.cat([x_BTC[:, i : i + length] for i in range(k)], dim=-1)
