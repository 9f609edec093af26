"""A stack of layers with its connection, its aggregation and its residual."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from models.config import options
from models.registry import AGGREGATIONS, CONNECTIONS, LAYERS, RESIDUALS
from models.seams import Aggregation, Connection, Context, Layer, Residual
from models.site import Flow, History, Memory, Site


class Stack(nn.Module):
    """x_l = connection(l); h_l, a_l = layer_l(x_l); output = aggregation(connection(L+1)). A connection that `corrects` runs layers twice.
    A residual with `streams` starts the stream: x_l and h_l are then the objects of its `start`. Its `end` runs before the aggregation.
    `memory_dims`: per layer, the widths of its memories (empty tuples in an encoder). `output` False: no aggregation is built.
    `blocks` N > 0: after every L/N layers, b^n = aggregation(x) of the next layer's input x, and C^n = context(C^{n-1}, b^n), C^0 = h_0.
    """

    recompute = False  # keep only the layers' inputs for the backward pass, which runs the layers again
    compiled: list[Callable[..., Any]] | None = None  # compiled layers, which replace the layers in training (`compile_layers`)

    def __init__(
        self, site: Site, memory_dims: list[tuple[int, ...]], context: Context | None = None, *, blocks: int = 0, output: bool = True
    ) -> None:
        super().__init__()
        config = site.stack
        site = site.at(output=output)
        layer, residual = LAYERS.get(config.layer["kind"]), RESIDUALS.get(config.residual["kind"])
        numbers = [layer.sublayers(site.at(memory_dims=dims)) for dims in memory_dims]
        if (order := residual.order(site.norm, **options(config.residual))) != site.norm:
            site = site.at(order=order)
        site = site.at(sublayers=sum(numbers))
        self.connection: Connection = CONNECTIONS.create(config.connection, site)
        self.layers = nn.ModuleList(
            LAYERS.create(
                config.layer, site.at(layer=l, memory_dims=dims, input_width=self.connection.width(l), before=sum(numbers[: l - 1]))
            )
            for l, dims in enumerate(memory_dims, start=1)
        )
        self.residual: Residual | None = RESIDUALS.create(config.residual, site) if residual.streams else None
        self.self_attends: bool = layer.self_attends
        self.runs: int = layer.runs(**options(config.layer))
        self.aggregation: Aggregation | None = AGGREGATIONS.create(config.aggregation, site) if output else None
        self.context = context
        self.block_layers = len(memory_dims) // blocks if blocks else 0

    def forward(self, h_0: Tensor, flow: Flow, memories: list[tuple[Memory, ...]] | None = None) -> tuple[Tensor, History]:
        """h_0 [B, T, D] -> (output [B, T, D], history of the pass)."""
        flow = replace(flow, memo={})
        history = History(h_0 if self.residual is None else self.residual.start(h_0))
        if self.context is not None:
            history.contexts.append(h_0)
        for l in range(1, len(self.layers) + 1):
            x = self.connection(l, history, flow)
            if self.block_layers and l > 1 and (l - 1) % self.block_layers == 0:
                self._end_block(x, history, flow)
            h, attended = self._layer(l, x, () if memories is None else memories[l - 1], history, flow)
            history.add(h, attended)
            history.kept.append(self.connection.keep(l, h, history))
        return self._output(history, flow), history

    def _layer(self, l: int, x: Tensor, memories: tuple[Memory, ...], history: History, flow: Flow) -> tuple[Tensor, Tensor | None]:
        """Returns (h_l, a_l). A connection that `corrects` computes a new x_l from the layer's first output and reruns the layer."""
        layer: Layer = self.layers[l - 1]  # type: ignore[assignment]
        lower = tuple(history.kept[l - i] for i in range(1, layer.reads + 1))
        context = history.contexts[-1] if history.contexts else None
        run = layer if self.compiled is None or not self._learns else self.compiled[l - 1]
        h, attended = self._run(run, x, lower, context, memories, flow)
        if self.connection.corrects:
            x = self.connection.corrected(l, h, history)
            h, attended = self._run(layer.once, x, lower, context, memories, flow.at(self.runs))
        return h, attended

    @property
    def reads_last_connection(self) -> bool:
        """Returns whether the aggregation reads connection(L+1). If not, the parameters of this connection get no gradient."""
        return self.aggregation is not None and self.aggregation.reads_top

    def _output(self, history: History, flow: Flow) -> Tensor:
        """Returns aggregation(connection(L+1)), or h_L without an aggregation. The `end` of a residual with `streams` runs in between."""
        if self.aggregation is None:
            return history.kept[-1]
        top = self.connection(len(self.layers) + 1, history, flow) if self.reads_last_connection else history.kept[-1]
        if self.residual is not None:
            top = self.residual.end(top)
        return self._end_block(top, history, flow) if self.block_layers else self.aggregation(top, history, flow)

    def compile_layers(self, **options: Any) -> None:
        """Compiles each layer with torch.compile. Layers that differ only in their weights share the code. Not with `recompute`."""
        self.compiled = [torch.compile(layer, **{"dynamic": True} | options) for layer in self.layers]

    @property
    def _learns(self) -> bool:
        return self.training and torch.is_grad_enabled()

    def _run(self, layer: Callable[..., Any], *arguments: Any) -> tuple[Tensor, Tensor | None]:
        again = self.recompute and self._learns
        h, attended = checkpoint(layer, *arguments, use_reentrant=False) if again else layer(*arguments)
        return h, attended

    def _end_block(self, x: Tensor, history: History, flow: Flow) -> Tensor:
        """Returns b^n and records b^n and C^n. x: input of the next layer; after the last layer, connection(L+1)."""
        assert self.aggregation is not None
        block = self.aggregation(x, history, flow)
        history.blocks.append(block)
        if self.context is not None:
            history.contexts.append(self.context(history.contexts[-1], block))
        return block
