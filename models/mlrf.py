"""What the fusion layers of MLRF (Wang et al. 2018) share: the states they read, the layer embedding, the fusion network."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from models.dropout import Dropout
from models.site import History, Site

Activation = Literal["relu", "tanh"]


class LayerEmbedding(nn.Module):
    """E_first..E_last in R^d, z~^l = z^l + E_l (Wang et al. 2018, section 3.2); one table for both sides, drawn from U(-0.1, 0.1)."""

    def __init__(self, first: int, last: int, d_model: int) -> None:
        super().__init__()
        self.first = first
        self.weight = nn.Parameter(torch.zeros(last - first + 1, d_model))

    def initialise(self, name: str, generator: torch.Generator) -> Tensor:
        return torch.empty(self.weight.shape).uniform_(-0.1, 0.1, generator=generator)

    def forward(self, states: list[Tensor], first: int) -> list[Tensor]:
        return [z + self.weight[first + i - self.first] for i, z in enumerate(states)]


def shared_table(site: Site) -> LayerEmbedding:
    """The model's one table, with a row for every layer index that a side reads."""
    made = site.shared.get("mlrf.layer_embedding")
    if not isinstance(made, LayerEmbedding):
        sides = [(side.num_layers, side.aggregation) for side in (site.config.encoder, site.config.decoder)]
        readers = [(last, a) for last, a in sides if a["kind"].startswith("mlrf-") and a.get("layer_embedding", a["kind"] != "mlrf-avg")]
        first = min(0 if a.get("word_embedding", True) else 1 for _, a in readers)
        made = site.shared["mlrf.layer_embedding"] = LayerEmbedding(first, max(last for last, _ in readers), site.d_model)
    return made


class FusionStates(nn.Module):
    """The list z~^0..z~^L a fusion layer reads: `words` includes the embedding output z^0, `layers` adds the layer embedding."""

    def __init__(self, site: Site, *, words: bool, layers: bool) -> None:
        super().__init__()
        self.first = 0 if words else 1
        self.count = site.num_layers + 1 - self.first
        self.embedding: nn.Module | None = shared_table(site) if layers else None

    def forward(self, history: History) -> list[Tensor]:
        states = history.kept[self.first :]
        return states if self.embedding is None else self.embedding(states, self.first)


class FusionNetwork(nn.Module):
    """LN(drop(W_b s(W_a x + b_a) + b_b)), W_a: d_f x d_in, W_b: d x d_f (Wang et al. 2018, section 3.2.2); no residual. s: relu or tanh."""

    def __init__(self, site: Site, num_inputs: int, d_f: int, activation: Activation = "relu") -> None:
        super().__init__()
        self.inner = nn.Linear(num_inputs * site.d_model, d_f)
        self.outer = nn.Linear(d_f, site.d_model)
        self.dropout = Dropout(site.config.dropout.residual)
        self.norm = site.layer_norm()
        self.activation = activation

    def forward(self, x: Tensor) -> Tensor:
        s = torch.relu if self.activation == "relu" else torch.tanh
        return self.norm(self.dropout(self.outer(s(self.inner(x)))))
