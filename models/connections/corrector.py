"""The corrector of Li et al. 2024 (PCformer)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from models.registry import CONNECTIONS
from models.seams import Connection
from models.site import Flow, History, Site


@CONNECTIONS.register("corrector")
class Corrector(Connection):
    """c_l = L_l(sum_{j<l} A_lj y_j + A_ll LN'_l(p_l)), y_l = LN_l(c_l), y_0 = h_0, x_{l+1} = sum_{j<=l} B_lj y_j (Li et al. 2024).

    p_l is what layer l predicts from x_l (in the paper by `layer: runge_kutta`, coefficients ema). The layer runs once more, with the same
    weights, on its prediction beside the layers below; what it gives takes the prediction's place. A and B are [L+1, L+1] and their rows
    start as averages; entries without a state stay. The authors' code reads B where its definition is commented out.
    """

    corrects = True

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        states = site.num_layers + 1
        self.predicted, self.weight = nn.Parameter(torch.zeros(states, states)), nn.Parameter(torch.zeros(states, states))
        self.prediction_norms = nn.ModuleList(site.layer_norm() for _ in range(site.num_layers))
        self.norms = nn.ModuleList(site.layer_norm() for _ in range(site.num_layers))

    @classmethod
    def check(cls, site: dict[str, Any], **options: Any) -> str | None:
        return None if site["norm"] == "pre" else f"found norm {site['norm']}; expected pre with connection corrector"

    def initialise(self, name: str, generator: torch.Generator) -> Tensor:
        weight = torch.ones(self.weight.shape).tril()
        return weight / weight.sum(1, keepdim=True)

    def corrected(self, layer: int, h: Tensor, history: History) -> Tensor:
        return self._mixed(self.predicted[layer], [*history.kept, self.prediction_norms[layer - 1](h)])

    def keep(self, layer: int, h: Tensor, history: History) -> Tensor:
        y: Tensor = self.norms[layer - 1](h)
        return y

    def forward(self, layer: int, history: History, flow: Flow) -> Tensor:
        return history.kept[0] if layer == 1 else self._mixed(self.weight[layer - 1], history.kept)

    @staticmethod
    def _mixed(row: Tensor, states: list[Tensor]) -> Tensor:
        return torch.tensordot(row[: len(states)], torch.stack(states), dims=1)

    def weights(self, s: Any = None) -> dict[str, Tensor]:
        """A and B; a reader is c_l or x_{l+1}, a source y_0 .. y_L, of A the prediction for y_l."""
        above = torch.ones_like(self.weight).triu(1).bool()
        above[0] = True
        return {name: w.masked_fill(above, torch.nan) for name, w in (("corrected", self.predicted), ("layers", self.weight))}
