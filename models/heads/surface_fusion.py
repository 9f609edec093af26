"""Surface fusion of Liu et al. 2021."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

from torch import Tensor

from models.attention import MultiHeadAttention
from models.memory import Memory
from models.registry import HEADS
from models.seams import Head
from models.site import Flow, History, Site


@HEADS.register("surface_fusion")
class SurfaceFusion(Head):
    """e = MHA(q = h, k = encoder's output, v = source words) with one head; h and the encoder's output get no gradient through it (Liu et
    al. 2021, "Understanding and improving encoder layer fusion", section 4).

    Words are embedded and scaled, without positions (assumed). Not here: gates that are learned, pooled words in place of attention.

    Args:
        mode: hard: log p = gate log softmax(W h + b) + (1 - gate) log softmax(W e + b), in the loss too; search and nll have p sum to 1,
            which the authors' scores do not. soft: p = softmax(W h + b + log softmax(temperature W e)), which is softmax(W (h + temperature
            e) + b).
        gate: share of the decoder's own prediction, between 0 and 1; of mode hard.
        temperature: factor of the logits of e, above 0; of mode soft.
    """

    reads_words = True

    def __init__(self, site: Site, *, mode: Literal["hard", "soft"] = "hard", gate: float = 0.8, temperature: float = 1.0) -> None:
        super().__init__(site)
        self.gate, self.temperature = gate, temperature
        self.parts = 2 if mode == "hard" else 1
        self.attention = MultiHeadAttention(site, heads=1)

    @classmethod
    def check(cls, site: dict[str, Any], **options: Any) -> str | None:
        mode, gate, temperature = options.get("mode", "hard"), options.get("gate", 0.8), options.get("temperature", 1.0)
        if not 0 < gate < 1 or temperature <= 0:
            return f"gate is {gate} and temperature {temperature}; expected a gate between 0 and 1 and a temperature above 0"
        unread = ("temperature", temperature, 1.0) if mode == "hard" else ("gate", gate, 0.8)
        return None if unread[1] == unread[2] else f"found {unread[0]} with mode {mode}, which does not read it; expected {unread[2]}"

    @classmethod
    def predictions(cls, num_layers: int, **options: Any) -> int:
        return 2 if options.get("mode", "hard") == "hard" else 1

    def forward(self, hidden: Tensor, history: History, source: Memory | None, flow: Flow) -> tuple[Tensor, ...]:
        assert source is not None
        source = source._replace(keys=source.keys.detach())
        e = self.attention.over(hidden.detach(), source, flow if flow.trace is None else replace(flow, trace=None))
        return (hidden, e) if self.parts == 2 else (hidden + self.temperature * e,)

    def shares(self) -> tuple[float, ...]:
        return self.gate, 1.0 - self.gate
