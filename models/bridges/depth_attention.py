"""Attention residuals from encoder to decoder, after the Kimi team 2026."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from models.full_precision import full_precision, rms
from models.memory import Memory
from models.registry import BRIDGES
from models.seams import Bridge
from models.site import Flow, History, Site


@BRIDGES.register("depth_attention")
class DepthAttentionBridge(Bridge):
    """memories_m = (LN(sum_j a_mj v_j),), a_m = softmax_j(w_m^T (g_m * rms(v_j))), for decoder layer m: the equation of the Kimi team 2026
    (AttnRes) over all sources v_j of the encoder with residual depth_attention; unpublished.

    w = 0 at the start: the uniform mean, as the encoder's output has it. That output is not built; the mixtures share a norm in its place.
    In fp32.

    Args:
        rate: factor of the learning rate of this component's own parameters.
    """

    needs_output = False
    reads_residual = "depth_attention"

    def __init__(self, site: Site, *, rate: float = 1.0) -> None:
        super().__init__(site)
        self.rate, self.eps = rate, site.config.norm_eps
        self.query, self.gain = (nn.Parameter(torch.zeros(site.num_layers, site.d_model)) for _ in range(2))
        self.norm = site.layer_norm()

    def initialise(self, name: str, generator: torch.Generator) -> Tensor:
        shape = self.gain.shape
        return torch.ones(shape) if name == "gain" else torch.zeros(shape)

    def forward(self, encoded: Tensor, history: History, extra: Memory | None, flow: Flow) -> list[tuple[Memory, ...]]:
        mixtures = self.norm(self.mix(history.outputs[-1].sources))  # type: ignore[attr-defined]
        return [(flow.memory(z),) for z in mixtures.unbind(-2)]

    def mix(self, sources: tuple[Tensor, ...]) -> Tensor:
        """J sources [B, S, D] -> [B, S, M, D], a mixture for each of M decoder layers"""
        with full_precision(sources[0]):
            v = torch.stack(sources, dim=-2).float()
            shares = (rms(v, self.eps) @ (self.query * self.gain).T).softmax(-2)
            return shares.mT @ v
