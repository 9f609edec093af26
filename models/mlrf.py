"""What the fusion layers of MLRF (Wang et al. 2018) share: the states they read, the layer embedding, the fusion network."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from models.dropout import Dropout
from models.site import History, Site


class LayerEmbedding(nn.Module):
    """E in R^{(L+1) x d}, z~^l = z^l + E_l (Wang et al. 2018, section 3.2); one table for both sides, drawn from U(-0.1, 0.1)."""

    def __init__(self, num_states: int, d_model: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(num_states, d_model))

    def initialise(self, name: str, generator: torch.Generator) -> Tensor:
        return torch.empty(self.weight.shape).uniform_(-0.1, 0.1, generator=generator)

    def forward(self, states: list[Tensor], first: int) -> list[Tensor]:
        return [z + self.weight[first + i] for i, z in enumerate(states)]


class FusionStates(nn.Module):
    """The list z~^0..z~^L a fusion layer reads: `words` includes the embedding output z^0, `layers` adds the layer embedding."""

    def __init__(self, site: Site, *, words: bool, layers: bool) -> None:
        super().__init__()
        self.first = 0 if words else 1
        self.count = site.num_layers + 1 - self.first
        self.embedding: nn.Module | None = None
        if layers:
            made = site.shared.get("mlrf.layer_embedding")
            rows = site.num_layers + 1
            if not isinstance(made, LayerEmbedding) or made.weight.shape[0] < rows:
                made = site.shared["mlrf.layer_embedding"] = LayerEmbedding(rows, site.d_model)
            self.embedding = made

    def forward(self, history: History) -> list[Tensor]:
        states = history.kept[self.first :]
        return states if self.embedding is None else self.embedding(states, self.first)


class FusionNetwork(nn.Module):
    """LN(drop(W_b relu(W_a x + b_a) + b_b)), W_a: d_f x d_in, W_b: d x d_f (Wang et al. 2018, section 3.2.2); no residual."""

    def __init__(self, site: Site, num_inputs: int, d_f: int) -> None:
        super().__init__()
        self.inner = nn.Linear(num_inputs * site.d_model, d_f)
        self.outer = nn.Linear(d_f, site.d_model)
        self.dropout = Dropout(site.config.dropout.residual)
        self.norm = site.layer_norm()

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.dropout(self.outer(torch.relu(self.inner(x)))))
