"""Connections of convolutional models: projected ones for layers whose width is not d_model, and dense ones (Shen et al. 2018)."""

from typing import Any, Literal

import torch
from torch import Tensor, nn

from models.dropout import Dropout
from models.layers.convolution import GluConv
from models.linear import base, group_size, linear, output_dim, output_widths
from models.registry import CONNECTIONS
from models.seams import Connection
from models.site import Flow, History, Site


@CONNECTIONS.register("projected")
class Projected(Connection):
    """x_1 = W_in h_0; x_l = h_{l-1}; the stack's output is W_out h_L (fc1 and fc2 of ConvS2S, Gehring et al. 2017).

    In an encoder the output has width d_model. In a decoder it has width output_dim and dropout (dropout.residual).
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


@CONNECTIONS.register("concatenated")
class Concatenated(Connection):
    """x_l = [h_{l-1}, .., h_1, h_0]; in a decoder [h_{l-1}, a_{l-1}, .., h_1, a_1, h_0] (Shen et al. 2018, Eq. 6-7).

    The stack's output is a linear map of the last group's concatenation: to d_model in an encoder, to output_dim in a decoder. In a decoder
    dropout (dropout.residual) follows.

    Args:
        sumlen: s > 0: a summary layer follows every s - 1 layers, except the last group (section 3.3). Its output has width d_model and
            replaces h_0 for the layers above, which read it and each other. 0: no summary layers.
        summary: what a summary layer is. linear: a linear map of the concatenation; glu_conv3: a gated convolution over three positions.
    """

    any_width = True
    passes_attended = True

    def __init__(self, site: Site, *, sumlen: int = 0, summary: Literal["linear", "glu_conv3"] = "linear") -> None:
        super().__init__(site)
        config, d, last = site.config, site.d_model, site.num_layers
        self.packable = summary == "linear"
        self.group = group_size(sumlen, last)
        decoder = site.side == "decoder"
        each = [(2 if decoder else 1) * width for width in output_widths(site.stack, d)]
        through = [d + sum(each[base(l, self.group) : l]) for l in range(1, last + 1)]  # the group's concatenation, layer l included
        self.widths = [d if self._begins(l) else through[l - 2] for l in range(1, last + 1)]
        self.widths.append(output_dim(config) if decoder else d)
        self.summaries = nn.ModuleList(
            GluConv(site, width, d, 3) if summary == "glu_conv3" else linear(config, width, d)
            for width in through[self.group - 1 : last - 1 : self.group]
        )
        self.outer = linear(config, through[-1], self.widths[-1]) if site.output else nn.Identity()
        self.dropout = Dropout(config.dropout.residual if decoder else 0.0)

    @classmethod
    def check(cls, site: dict[str, Any], **options: Any) -> str | None:
        sumlen = options.get("sumlen", 0)
        return f"sumlen is {sumlen}; expected 0 or at least 2, a layer and its summary" if sumlen == 1 else None

    def _begins(self, layer: int) -> bool:
        """Returns whether the layer is the first of a group."""
        return base(layer, self.group) == layer - 1

    def width(self, layer: int) -> int:
        return self.widths[layer - 1]

    def forward(self, layer: int, history: History, flow: Flow) -> Tensor:
        if layer == len(self.widths):
            return self.dropout(self.outer(self._concatenation(history)))
        if layer > 1 and self._begins(layer):
            summary = self.summaries[(layer - 1) // self.group - 1]
            below = self._concatenation(history)
            history.restart(summary(below, flow) if isinstance(summary, GluConv) else summary(below))
        return self._concatenation(history)

    def _concatenation(self, history: History) -> Tensor:
        """Returns the concatenation of the group's states, the newest first."""
        first, *states = history.group
        newest: list[Tensor] = []
        for h, attended in zip(reversed(states), reversed(history.attended), strict=False):
            newest += [h] if attended is None else [h, attended]
        return torch.cat((*newest, first), dim=-1) if newest else first
