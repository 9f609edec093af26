"""DeepCrossAttention of Heddes et al. 2025."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, nn

from models.dropout import Dropout
from models.full_precision import full_precision
from models.registry import RESIDUALS
from models.seams import Residual
from models.site import Site

State = tuple[tuple[Tensor, ...], Tensor, Tensor | None]


@RESIDUALS.register("deep_cross_attention")
class DeepCrossAttention(Residual):
    """g = sum_j (b_j + relu(w^T G_j)) * G_j over G = [h_0, f_1, .., f_{l-1}], f_l what layer l adds (Heddes et al. 2025, GRN-v3, DCA).

    Three such sums of layer l give its queries, keys and values, each through a norm of its own; the stream goes on from that of the
    queries, and cross-attention and FFN read it (assumed). The stack's output is one more sum. Layer 1 reads h_0. b = 1 at the start. In
    fp32.

    Args:
        gate_start: w at the start (not printed). normal: N(0, 0.01); zero: the plain network, but under torch's relu'(0) = 0 it stays zero
            for ever.
        last: k > 0: G = [h_0, the sum of what lies between, the last k] (k-DCA); 0: all.
        rate: factor of the learning rate of this component's own parameters.
    """

    norms = ("pre",)
    takes_views = True
    streams = True

    def __init__(self, site: Site, *, gate_start: Literal["normal", "zero"] = "normal", last: int = 0, rate: float = 1.0) -> None:
        super().__init__(site)
        self.rate = rate
        d, ends = site.d_model, site.place == 0
        below = site.num_layers if ends else site.layer - 1
        self.mixes = (ends or site.role == "self") and below > 0
        self.last, self.zero = last, gate_start == "zero"
        self.sums = 1 if ends else 3
        self.views = 3 if self.mixes and not ends else 1
        number = min(below + 1, last + 2) if last else below + 1
        self.weight = nn.Parameter(torch.zeros(self.sums, number, d)) if self.mixes else None
        self.gate = nn.Parameter(torch.zeros(self.sums, d)) if self.mixes else None

    def initialise(self, name: str, generator: torch.Generator) -> Tensor:
        value = torch.empty(getattr(self, name).shape)
        if name == "weight":
            return value.fill_(1.0)
        return value.zero_() if self.zero else value.normal_(0.0, 0.01, generator=generator)

    def start(self, h_0: Tensor) -> State:
        """(G, the stream, what the layer has added so far)"""
        return (h_0,), h_0, None

    def read(self, s: State) -> tuple[Any, State]:
        below, x, added = s
        if not self.mixes:
            return x, s
        assert added is not None
        below = (*below, added)
        views = self.mix(below)
        return views, (below, views[0], None)

    def mix(self, below: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """G, each [B, T, D] -> its sums"""
        assert self.weight is not None
        with full_precision(below[0]):
            g = self._group(below)
            gates = self._gates(g)
            return tuple(((self.weight[c] + gates[..., c, None]) * g).sum(-2) for c in range(self.sums))

    def _group(self, below: tuple[Tensor, ...]) -> Tensor:
        """G [B, T, J, D]"""
        if self.last and len(below) > self.last + 2:
            between = below[1 : -self.last]
            below = (below[0], torch.stack(between).sum(0), *below[-self.last :])
        return torch.stack(below, dim=-2).float()

    def _gates(self, g: Tensor) -> Tensor:
        """[B, T, J, sums]"""
        assert self.gate is not None
        return torch.relu(g @ self.gate.T)

    def write(self, s: State, y: Tensor, x: Tensor, drop: Dropout) -> State:
        below, stream, added = s
        y = drop(y).to(stream.dtype)
        return below, stream + y, y if added is None else added + y

    def end(self, s: State) -> Tensor:
        assert s[2] is not None
        return self.mix((*s[0], s[2]))[0]

    def weights(self, s: Any = None) -> dict[str, Tensor]:
        """The mean over D of b_j, and relu(w^T G_j), for each sum; a source is h_0 or what a layer added."""
        if not self.mixes or self.weight is None:
            return {}
        gates = self._gates(self._group((*s[0], s[2])))
        return {name: self.weight[c].mean(-1) + gates[..., c] for c, name in enumerate("qkv" if self.sums == 3 else "g")}
