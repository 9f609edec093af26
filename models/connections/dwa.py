"""Depth-weighted averages of Pagliardini et al. 2024."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, nn

from models.registry import CONNECTIONS
from models.running_mix import RunningMix
from models.seams import Connection
from models.site import Flow, History, Site


@CONNECTIONS.register("dwa")
class Dwa(Connection):
    """x_{l+1} = sum_{j<=l} a_lj h_j, h_j before it is mixed (Pagliardini et al. 2024, DenseFormer, Eq. 1): also behind the last layer.

    The weights are learned, not normalised, and start as a_ll = 1, others 0: the plain network. A sum of one state is left out.

    Args:
        dilation: k of "k x p": a sum is over the states j = l modulo k.
        period: p of "k x p": a sum stands behind every p-th layer alone.
        keeps: all: a sum is over the outputs of all layers (the authors' package); units: over those of every p-th layer alone, counted so
            for the dilation too (the authors' experiments).
        where: all: a sum stands behind every layer that the period allows; top: behind the last layer alone.
        rate: factor of the learning rate of the weights a.
    """

    def __init__(
        self,
        site: Site,
        *,
        dilation: int = 1,
        period: int = 1,
        keeps: Literal["all", "units"] = "all",
        where: Literal["all", "top"] = "all",
        rate: float = 1.0,
    ) -> None:
        super().__init__(site)
        layers, step = site.num_layers, period * dilation if keeps == "units" else dilation
        self.rate, self.states = rate, layers + 1
        mixed = [l for l in range(1, layers + 1) if l % period == 0 and (where == "all" or l == layers)]
        self.sources = {l: list(range(l % step, l + 1, step)) for l in mixed if l >= step}
        self.places = [l * self.states + j for l, js in self.sources.items() for j in js]
        self.weight = nn.Parameter(torch.zeros(len(self.places)))

    @classmethod
    def check(cls, site: dict[str, Any], **options: Any) -> str | None:
        layers, k, p = site["num_layers"], options.get("dilation", 1), options.get("period", 1)
        if options.get("where", "all") == "top" and (k, p) != (1, 1):
            return f"found dilation {k} and period {p} with where top; expected 1 and 1"
        step = k * p if options.get("keeps", "all") == "units" else k
        if not any(l % p == 0 and l >= step for l in range(1, layers + 1)):
            return f"found dilation {k} and period {p} in {layers} layers, where no sum has two states; expected less"
        return cls.check_rate(options)

    def initialise(self, name: str, generator: torch.Generator) -> Tensor:
        return torch.tensor([float(place % self.states == place // self.states) for place in self.places])

    def rows(self) -> Tensor:
        """a_lj as a matrix [L + 1, L + 1], 0 where there is none."""
        zeros = self.weight.new_zeros(self.states**2)
        return zeros.index_put((torch.tensor(self.places, device=zeros.device),), self.weight).unflatten(0, (self.states, self.states))

    def keep(self, layer: int, h: Tensor, history: History) -> Tensor:
        mix = RunningMix.of(self, history, self.rows)
        return h if mix is None else mix.put(h, layer)

    def forward(self, layer: int, history: History, flow: Flow) -> Tensor:
        l, mix = layer - 1, RunningMix.of(self, history, self.rows)
        if l not in self.sources:
            return history.kept[l]
        if mix is not None:
            return mix.read(mix.weights[l, : l + 1])
        rows = self.rows()
        return torch.stack([rows[l, j] * history.kept[j] for j in self.sources[l]]).sum(0)

    def weights(self, s: Any = None) -> dict[str, Tensor]:
        """a; a reader is x_1 .. x_{L+1}, a source h_0 .. h_L."""
        states, places = self.states, torch.tensor(self.places)
        return {"layers": self.weight.new_full((states**2,), torch.nan).index_put((places,), self.weight).unflatten(0, (states, states))}
