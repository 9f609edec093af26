"""A stack of layers: connection, layer, keep; at the end an aggregation."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor, nn

from models.config import options
from models.memory import Memory
from models.registry import AGGREGATIONS, CONNECTIONS, LAYERS
from models.seams import Aggregation, Connection, Context, Layer
from models.site import Flow, History, Site


class Stack(nn.Module):
    """x_l = connection(l); h_l, a_l = layer_l(x_l); output = aggregation(connection(L+1)).

    `memory_dims`: per layer the widths of its memories (empty tuples in an encoder). `output` False: the aggregation is not built.
    """

    def __init__(self, site: Site, memory_dims: list[tuple[int, ...]], context: Context | None = None, *, output: bool = True) -> None:
        super().__init__()
        config = site.config.encoder if site.side == "encoder" else site.config.decoder
        make = LAYERS.get(config.layer["kind"])
        self.connection: Connection = CONNECTIONS.get(config.connection["kind"])(site, **options(config.connection))
        self.layers = nn.ModuleList(
            make(replace(site, layer=l, memory_dims=dims), **options(config.layer)) for l, dims in enumerate(memory_dims, start=1)
        )
        self.aggregation: Aggregation | None = None
        if output:
            self.aggregation = AGGREGATIONS.get(config.aggregation["kind"])(site, **options(config.aggregation))
        # the top read is computed unless nobody looks at it
        self.reads_top = output and self.aggregation is not None and self.aggregation.reads_top
        self.context = context

    def forward(self, h_0: Tensor, flow: Flow, memories: list[tuple[Memory, ...]] | None = None) -> tuple[Tensor, History]:
        """h_0 [B, T, D] -> (output [B, T, D], the pass's history)."""
        history = History(h_0)
        layer: Layer
        for l, layer in enumerate(self.layers, start=1):  # type: ignore[assignment]
            x = self.connection(l, history, flow)
            context = None if self.context is None else self.context(l, history)
            lower = tuple(history.kept[l - i] for i in range(1, layer.reads + 1))
            h, attended = layer(x, lower, context, () if memories is None else memories[l - 1], flow)
            history.inputs.append(x)
            history.outputs.append(h)
            history.attended.append(attended)
            history.kept.append(self.connection.keep(l, h, history))
        if self.aggregation is None:
            return history.kept[-1], history
        top = self.connection(len(self.layers) + 1, history, flow) if self.reads_top else history.kept[-1]
        return self.aggregation(top, history, flow), history
