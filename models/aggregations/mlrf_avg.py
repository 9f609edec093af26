"""MLRF fusion by averaging, Wang et al. 2018."""

from __future__ import annotations

from torch import Tensor

from models.mlrf import FusionStates
from models.registry import AGGREGATIONS
from models.seams import Aggregation
from models.site import Flow, History, Site


@AGGREGATIONS.register("mlrf-avg")
class MlrfAverage(Aggregation):
    """z = LN(mean_{l=0..L} z^l) (Wang et al. 2018, section 3.2.1). A layer embedding would be a constant, so there is none.

    Args:
        word_embedding: whether the embedded words z^0 are one of the states; else the mean begins with layer 1.
    """

    reads_top = False

    def __init__(self, site: Site, *, word_embedding: bool = True) -> None:
        super().__init__(site)
        self.states = FusionStates(site, words=word_embedding, layers=False)
        self.norm = site.layer_norm()

    def forward(self, x_top: Tensor, history: History, flow: Flow) -> Tensor:
        states = self.states(history)
        total = states[0]
        for z in states[1:]:
            total = total + z
        return self.norm(total / len(states))
