"""Each decoder layer attends to its own mixture of encoder layers."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models.config import Probability
from models.dropout import Dropout
from models.initialise import drawn, starts_as
from models.precision import full_precision, rms
from models.registry import BRIDGES
from models.seams import Bridge
from models.site import Flow, History, Memory, Site


@BRIDGES.register("transparent")
class TransparentBridge(Bridge):
    """memories_m = (LN(sum_{i=0}^{L} softmax_i(drop(s_m + 1/(L+1))) h_i),) for decoder layer m (Bapna et al. 2018, section 4).

    s starts at 0, which gives the average. Dropout and the constant 1/(L+1) are Lingvo's (WeightedSumLayer). The constant only matters with
    dropout. h_0: the embedded source. In pre-norm the mixtures share one norm in place of the encoder's final norm; post-norm has none.

    Args:
        dropout: dropout probability of the scores s_m + 1/(L+1)."""

    needs_output = False
    reads_layers = True

    def __init__(self, site: Site, *, dropout: Probability = 0.1) -> None:
        super().__init__(site)
        states = site.config.encoder.num_layers + 1
        self.scalars = starts_as(torch.zeros(states, site.num_layers))
        self.dropout = Dropout(dropout)
        self.norm = site.layer_norm() if site.norm == "pre" else nn.Identity()

    def forward(self, encoded: Tensor, history: History, extra: Memory | None, flow: Flow) -> list[tuple[Memory, ...]]:
        weights = self.dropout(self.scalars + 1.0 / len(self.scalars)).softmax(dim=0)
        with full_precision(weights):
            mixtures = torch.tensordot(weights.to(history.kept[0].dtype), torch.stack(history.kept), dims=([0], [0]))
        return [(flow.memory(z),) for z in self.norm(mixtures).unbind(0)]

    def weights(self, s: Any = None) -> dict[str, Tensor]:
        """Returns softmax s_m. The readers are the decoder layers, the sources h_0 .. h_L."""
        return {"layers": self.scalars.softmax(0).T}


@BRIDGES.register("mudd")
class MuddBridge(Bridge):
    """K_m = LN_k(sum_{j<=L} (a^k_mj + A^k_mj) X_j), V_m = LN_v(sum_j (a^v_mj + A^v_mj) X_j), of decoder layer m: the equations of Xiao et
    al. 2025 (MUDD) for keys and values of cross-attention, unpublished.

    X_j: outputs of the encoder layers, X_0 = h_0. A = GELU(rms(X_L) W1) W2 at each source position, with inner width 2 M (L + 1) for M
    decoder layers. At the start W2 = 0, a_mL = 1 and the other a are 0, which gives the encoder's output. W1 ~ N(0, 1 / sqrt(D)). In
    pre-norm two norms replace the encoder's final norm; post-norm has none. Coefficients and sums are fp32."""

    needs_output = False
    reads_layers = True

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self.eps = site.config.norm_eps
        layers, states = site.num_layers, site.config.encoder.num_layers + 1
        inner = 2 * layers * states
        static = torch.zeros(layers, 2, states)
        static[..., -1] = 1.0
        self.static = starts_as(static)
        self.inner = drawn(site.d_model, inner, std=site.d_model**-0.5)
        self.outer = starts_as(torch.zeros(inner, inner))
        pre = site.norm == "pre"
        self.key_norm, self.value_norm = (site.layer_norm() if pre else nn.Identity() for _ in range(2))

    def forward(self, encoded: Tensor, history: History, extra: Memory | None, flow: Flow) -> list[tuple[Memory, ...]]:
        keys, values = self.mix(history.kept)
        both = zip(self.key_norm(keys).unbind(-2), self.value_norm(values).unbind(-2), strict=True)
        return [(flow.memory(k, v),) for k, v in both]

    def mix(self, states: list[Tensor]) -> tuple[Tensor, Tensor]:
        """X_0 .. X_L [B, S, D] -> keys and values before their norms, [B, S, M, D] each"""
        with full_precision(states[0]):
            own = F.gelu(rms(states[-1], self.eps) @ self.inner) @ self.outer
            weights = self.static + own.unflatten(-1, self.static.shape)
            below = torch.stack(states, dim=-2).float()
            return weights[..., 0, :] @ below, weights[..., 1, :] @ below

    def weights(self, s: Any = None) -> dict[str, Tensor]:
        """Returns the static weights a of keys and values. The readers are the decoder layers, the sources X_0 .. X_L."""
        return {"k": self.static[:, 0], "v": self.static[:, 1]}


@BRIDGES.register("depth_attention")
class DepthAttentionBridge(Bridge):
    """memories_m = (LN(sum_j a_mj v_j),), a_m = softmax_j(w_m^T (g_m * rms(v_j))), for decoder layer m: the equation of the Kimi team 2026
    (AttnRes) over all sources v_j of the encoder with residual depth_attention; unpublished.

    At the start w = 0, which gives the uniform mean, as in the encoder's output. The encoder's output is not built; the mixtures share one
    norm in place of its final norm. Computed in fp32."""

    needs_output = False
    reads_residual = "depth_attention"

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self.eps = site.config.norm_eps
        shape = (site.num_layers, site.d_model)
        self.query, self.gain = starts_as(torch.zeros(shape)), starts_as(torch.ones(shape))
        self.norm = site.layer_norm()

    def forward(self, encoded: Tensor, history: History, extra: Memory | None, flow: Flow) -> list[tuple[Memory, ...]]:
        mixtures = self.norm(self.mix(history.outputs[-1].sources))  # type: ignore[attr-defined]
        return [(flow.memory(z),) for z in mixtures.unbind(-2)]

    def mix(self, sources: tuple[Tensor, ...]) -> Tensor:
        """J sources [B, S, D] -> a mixture for each of M decoder layers, [B, S, M, D]"""
        with full_precision(sources[0]):
            v = torch.stack(sources, dim=-2).float()
            shares = (rms(v, self.eps) @ (self.query * self.gain).T).softmax(-2)
            return shares.mT @ v
