"""Layers of another width than d_model, one on top of the other."""

from __future__ import annotations

from torch import Tensor, nn

from models.dropout import Dropout
from models.linear import linear
from models.registry import CONNECTIONS
from models.seams import Connection
from models.site import Flow, History, Site
from models.widths import output_dim, output_widths


@CONNECTIONS.register("projected")
class Projected(Connection):
    """x_1 = W_in h_0; x_l = h_{l-1}; the stack's output is W_out h_L (fc1 and fc2 of ConvS2S, Gehring et al. 2017).

    The output has width d_model in an encoder; in a decoder output_dim, and dropout (dropout.residual).
    """

    any_width = True

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        config, d = site.config, site.d_model
        decoder, widths = site.side == "decoder", output_widths(site.stack, d)
        self.widths = [widths[0], *widths[:-1], output_dim(config) if decoder else d]
        self.inner = linear(config, d, widths[0], dropped=config.dropout.embedding)
        self.outer = linear(config, widths[-1], self.widths[-1]) if site.output else nn.Identity()
        self.dropout = Dropout(config.dropout.residual if decoder else 0.0)

    def width(self, layer: int) -> int:
        return self.widths[layer - 1]

    def forward(self, layer: int, history: History, flow: Flow) -> Tensor:
        below = history.kept[layer - 1]
        if layer == 1:
            return self.inner(below)
        return below if layer < len(self.widths) else self.dropout(self.outer(below))
