"""A stack of layers: connection, layer, keep; at the end an aggregation."""

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
    Where the side's residual has several streams, x_l and h_l are what its `start` makes, and its `end` stands before the aggregation.
    `memory_dims`: per layer the widths of its memories (empty tuples in an encoder). `output` False: the aggregation is not built.
    `blocks` N > 0: behind every L/N layers b^n = aggregation(x), x what the next layer reads, and C^n = context(C^{n-1}, b^n), C^0 = h_0.
    """

    recompute = False  # layers keep nothing but their inputs for the backward pass, which runs them once more
    compiled: list[Callable[..., Any]] | None = None  # what runs in training in place of each layer, after `compile_layers`

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
        """h_0 [B, T, D] -> (output [B, T, D], the pass's history)."""
        flow = replace(flow, memo={})
        history = History(h_0 if self.residual is None else self.residual.start(h_0))
        if self.context is not None:
            history.contexts.append(h_0)
        for l in range(1, len(self.layers) + 1):
            x = self.connection(l, history, flow)
            if self.block_layers and l > 1 and (l - 1) % self.block_layers == 0:
                self._end_block(x, history, flow)
            x, h, attended = self._layer(l, x, () if memories is None else memories[l - 1], history, flow)
            history.add(x, h, attended)
            history.kept.append(self.connection.keep(l, h, history))
        return self._output(history, flow), history

    def _layer(self, l: int, x: Tensor, memories: tuple[Memory, ...], history: History, flow: Flow) -> tuple[Tensor, Tensor, Tensor | None]:
        """(x_l, h_l, a_l). A connection that `corrects` makes x_l anew of the layer's first output and runs the layer once more."""
        layer: Layer = self.layers[l - 1]  # type: ignore[assignment]
        lower = tuple(history.kept[l - i] for i in range(1, layer.reads + 1))
        context = history.contexts[-1] if history.contexts else None
        run = layer if self.compiled is None or not self._learns else self.compiled[l - 1]
        h, attended = self._run(run, x, lower, context, memories, flow)
        if self.connection.corrects:
            x = self.connection.corrected(l, h, history)
            h, attended = self._run(layer.once, x, lower, context, memories, flow.at(self.runs))
        return x, h, attended

    @property
    def reads_last_connection(self) -> bool:
        """Whether anything reads the connection behind the last layer. Where nothing does, its parameters get no gradient."""
        return self.aggregation is not None and self.aggregation.reads_top

    def _output(self, history: History, flow: Flow) -> Tensor:
        """aggregation(connection(L+1)), through the residual's `end` where it has several streams; h_L where nothing aggregates."""
        if self.aggregation is None:
            return history.kept[-1]
        top = self.connection(len(self.layers) + 1, history, flow) if self.reads_last_connection else history.kept[-1]
        if self.residual is not None:
            top = self.residual.end(top)
        return self._end_block(top, history, flow) if self.block_layers else self.aggregation(top, history, flow)

    def compile_layers(self, **options: Any) -> None:
        """Compiles each layer by torch.compile: layers that differ in their weights alone share the code. Not with `recompute`."""
        self.compiled = [torch.compile(layer, **{"dynamic": True} | options) for layer in self.layers]

    @property
    def _learns(self) -> bool:
        return self.training and torch.is_grad_enabled()

    def _run(self, layer: Callable[..., Any], *arguments: Any) -> tuple[Tensor, Tensor | None]:
        again = self.recompute and self._learns
        h, attended = checkpoint(layer, *arguments, use_reentrant=False) if again else layer(*arguments)
        return h, attended

    def _end_block(self, x: Tensor, history: History, flow: Flow) -> Tensor:
        """x: what the next layer reads, or the connection behind the last one."""
        assert self.aggregation is not None
        block = self.aggregation(x, history, flow)
        history.blocks.append(block)
        if self.context is not None:
            history.contexts.append(self.context(history.contexts[-1], block))
        return block
