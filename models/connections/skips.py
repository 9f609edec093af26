"""Skip connections of modded-nanogpt's speed records: backout, and skips from the embeddings."""

from typing import Any

import torch
from torch import Tensor

from models.config import Positive
from models.initialise import starts_as
from models.precision import rms
from models.registry import CONNECTIONS
from models.seams import Connection
from models.site import Flow, History, Site


@CONNECTIONS.register("backout")
class Backout(Connection):
    """The plain stack with output h_L - b h_k, k = floor(2L / 3) (modded-nanogpt, record of October 2025); b is learned, .5 at the start.

    Args:
        rate: factor of the learning rate of b (modded-nanogpt: 5).
    """

    min_layers = 2
    for_top = ()

    def __init__(self, site: Site, *, rate: Positive = 1.0) -> None:
        super().__init__(site)
        self.top, self.layer, self.rate = site.num_layers + 1, 2 * site.num_layers // 3, rate
        self.weight = starts_as(torch.full((1,), 0.5))

    def forward(self, layer: int, history: History, flow: Flow) -> Tensor:
        h = history.kept[layer - 1]
        return h if layer < self.top else h - self.weight * history.kept[self.layer]


@CONNECTIONS.register("embedding_skip")
class EmbeddingSkip(Connection):
    """x_l = a_l h_{l-1} + b_l h_0 for layers l >= 2 (modded-nanogpt's x0 lambdas, record of November 2024); a and b are learned.

    At the start a = 1 and b = 0, which gives the plain network. Not implemented: gates from the embedding.

    Args:
        normed: whether rms(h_0) replaces h_0 as the stack's input and in the skips, as in modded-nanogpt.
        backout: whether the output is h_L - c h_k, k = floor(2L / 3), c = 0.5 at the start (`connection: backout`).
        rate: factor of the learning rate of a, b and c (modded-nanogpt: 5).
    """

    min_layers = 2
    for_top = (("backout", True),)

    def __init__(self, site: Site, *, normed: bool = False, backout: bool = False, rate: Positive = 1.0) -> None:
        super().__init__(site)
        self.normed, self.rate = normed, rate
        self.weight = starts_as(torch.tensor([1.0, 0.0]).repeat(site.num_layers - 1, 1))
        self.backout = Backout(site, rate=rate) if backout else None

    def forward(self, layer: int, history: History, flow: Flow) -> Tensor:
        if layer == 1 and self.normed:
            history.kept[0] = rms(history.kept[0])
        h = history.kept[layer - 1]
        if layer > len(self.weight) + 1:
            return h if self.backout is None else self.backout(layer, history, flow)
        return h if layer == 1 else self.weight[layer - 2, 0] * h + self.weight[layer - 2, 1] * history.kept[0]

    def weights(self, s: Any = None) -> dict[str, Tensor]:
        """Returns (a, b) of layers 1 .. L. Layer 1 reads h_0."""
        return {"layer below, h_0": torch.cat((self.weight.new_full((1, 2), torch.nan), self.weight))}
