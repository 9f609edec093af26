"""Multiway dynamic dense connections from encoder to decoder, after Xiao et al. 2025."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models.full_precision import full_precision, rms
from models.memory import Memory
from models.registry import BRIDGES
from models.seams import Bridge
from models.site import Flow, History, Site


@BRIDGES.register("mudd")
class MuddBridge(Bridge):
    """K_m = LN_k(sum_{j<=L} (a^k_mj + A^k_mj) X_j), V_m = LN_v(sum_j (a^v_mj + A^v_mj) X_j), of decoder layer m: the equations of Xiao et
    al. 2025 (MUDD) for the two ways of cross-attention, unpublished.

    X_j: outputs of encoder layers, X_0 = h_0; A = GELU(rms(X_L) W1) W2 at each source position, of inner width 2 M (L + 1) for M decoder
    layers. At the start W2 = 0, a_mL = 1, others 0: the encoder's output; W1 N(0, 1 / sqrt(D)). Two norms in place of the encoder's final
    one in pre-norm, none in post-norm. Coefficients and sums in fp32.

    Args:
        dynamic: whether A is there; else the weights are a alone.
        rate: factor of the learning rate of this component's own parameters.
    """

    needs_output = False
    reads_layers = True

    def __init__(self, site: Site, *, dynamic: bool = True, rate: float = 1.0) -> None:
        super().__init__(site)
        self.rate, self.eps = rate, site.config.norm_eps
        layers, states = site.num_layers, site.config.encoder.num_layers + 1
        inner = 2 * layers * states
        self.static = nn.Parameter(torch.zeros(layers, 2, states))
        self.inner = nn.Parameter(torch.zeros(site.d_model, inner)) if dynamic else None
        self.outer = nn.Parameter(torch.zeros(inner, inner)) if dynamic else None
        pre = site.norm == "pre"
        self.key_norm, self.value_norm = (site.layer_norm() if pre else nn.Identity() for _ in range(2))

    def initialise(self, name: str, generator: torch.Generator) -> Tensor:
        value = torch.zeros(getattr(self, name).shape)
        if name == "inner":
            return value.normal_(0.0, value.shape[0] ** -0.5, generator=generator)
        if name == "static":
            value[..., -1] = 1.0
        return value

    def forward(self, encoded: Tensor, history: History, extra: Memory | None, flow: Flow) -> list[tuple[Memory, ...]]:
        keys, values = self.mix(history.kept)
        both = zip(self.key_norm(keys).unbind(-2), self.value_norm(values).unbind(-2), strict=True)
        return [(flow.memory(k, v),) for k, v in both]

    def mix(self, states: list[Tensor]) -> tuple[Tensor, Tensor]:
        """X_0 .. X_L [B, S, D] -> keys and values [B, S, M, D], before their norms"""
        with full_precision(states[0]):
            weights: Tensor = self.static
            if self.inner is not None and self.outer is not None:
                own = F.gelu(rms(states[-1], self.eps) @ self.inner) @ self.outer
                weights = weights + own.unflatten(-1, self.static.shape)
            below = torch.stack(states, dim=-2).float()
            return weights[..., 0, :] @ below, weights[..., 1, :] @ below

    def weights(self, s: Any = None) -> dict[str, Tensor]:
        """a of keys and values; a reader is a decoder layer, a source X_0 .. X_L."""
        return {"k": self.static[:, 0], "v": self.static[:, 1]}
