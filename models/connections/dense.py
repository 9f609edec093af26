"""Dense connection of Dou et al. 2018."""

from __future__ import annotations

from torch import Tensor

from models.registry import CONNECTIONS
from models.seams import Connection
from models.site import Flow, History


@CONNECTIONS.register("dense")
class Dense(Connection):
    """H^1 = Layer(H^0); H^l = Layer(H^{l-1}) + sum_{i=1}^{l-1} H^i for l >= 2 (Dou et al. 2018, Eq. 4, literally).

    The sum is added after the layer's last norm, so it is in the stack's output too. No parameters. A running sum stands for the H^i.
    """

    def keep(self, layer: int, h: Tensor, history: History) -> Tensor:
        total = history.memo.get(self)
        kept = h if total is None else h + total
        history.memo[self] = kept if total is None else total + kept
        return kept

    def forward(self, layer: int, history: History, flow: Flow) -> Tensor:
        return history.kept[layer - 1]
