"""Block-scale collaboration of Wei et al. 2020: each decoder layer attends to an encoder block of its own."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from models.contexts.multiscale import uneven
from models.registry import BRIDGES
from models.seams import Bridge
from models.site import Flow, History, Memory, Site


@BRIDGES.register("multiscale")
class MultiscaleBridge(Bridge):
    """memories_n = (b^n, C^n) for decoder layer n, or (b^n,) where there is no context (Wei et al. 2020, section 3.1).

    b^n: output of encoder block n behind the encoder's final norm, which all blocks share.

    Args:
        blocks: blocks of the encoder, of equal height; as many as the decoder has layers.
    """

    reads_context = True
    reads_layers = True

    def __init__(self, site: Site, *, blocks: int = 6) -> None:
        super().__init__(site)
        self.blocks = blocks
        self.dims = (site.d_model,) * (1 if site.config.context is None else 2)

    @classmethod
    def check(cls, site: dict[str, Any], **options: Any) -> str | None:
        blocks, layers = options.get("blocks", 6), site["decoder_layers"]
        if blocks != layers:
            return f"found blocks {blocks}; expected {layers}, a block for each layer of the decoder"
        return uneven(blocks, site["encoder_layers"])

    def memory_dims(self, layer: int) -> tuple[int, ...]:
        return self.dims

    def forward(self, encoded: Tensor, history: History, extra: Memory | None, flow: Flow) -> list[tuple[Memory, ...]]:
        blocks, contexts = ([flow.memory(t) for t in states] for states in (history.blocks, history.contexts))
        return list(zip(blocks, contexts[1:], strict=True)) if contexts else [(block,) for block in blocks]
