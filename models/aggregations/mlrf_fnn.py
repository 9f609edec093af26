"""MLRF fusion by a feed-forward network, Wang et al. 2018."""

from __future__ import annotations

import torch
from torch import Tensor

from models.mlrf import Activation, FusionNetwork, FusionStates
from models.registry import AGGREGATIONS
from models.seams import Aggregation
from models.site import Flow, History, Site


@AGGREGATIONS.register("mlrf-fnn")
class MlrfFeedForward(Aggregation):
    """z = LN(W_b s(W_a [z~^0;..;z~^L] + b_a) + b_b), z~^l = z^l + E_l (Wang et al. 2018, section 3.2.2).

    Args:
        d_f: inner width of the network, the rows of W_a.
        activation: s, relu or tanh.
        word_embedding: whether the embedded words z^0 are one of the states; else they begin with layer 1.
        layer_embedding: whether E_l is added to the state of layer l; encoder and decoder share one table of E.
    """

    reads_top = False

    def __init__(
        self,
        site: Site,
        *,
        d_f: int = 512,
        activation: Activation = "relu",
        word_embedding: bool = True,
        layer_embedding: bool = True,
    ) -> None:
        super().__init__(site)
        self.states = FusionStates(site, words=word_embedding, layers=layer_embedding)
        self.network = FusionNetwork(site, self.states.count, d_f, activation)

    def forward(self, x_top: Tensor, history: History, flow: Flow) -> Tensor:
        return self.network(torch.cat(self.states(history), dim=-1))
