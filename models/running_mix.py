"""Weighted sums over a growing list of states, each state kept once.

Shapes: K states at most, M numbers in a state.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from models.site import History


class RunningMix:
    """x_l = sum_{k<l} W_{l,k} y_k, for growing l; the y_k are put in turn.

    The states lie side by side in one [K, M] tensor, so that a sum is one product and reads every state once. Backwards, the gradient of
    y_k is the sum over l > k of W_{l,k} dx_l: it is made at one time, when the first x_l that y_k is in asks for it, and by then all dx_l
    above are there. Memory is 2 K states; autograd by itself would hold or pass down something of every state for every x_l above it.
    """

    def __init__(self, weights: Tensor) -> None:
        """weights [K, K]: row l-1 is of x_l."""
        self.weights = weights
        self._states = _States(weights)
        self._new: list[Tensor] = []
        self._above: Tensor | None = None

    @staticmethod
    def of(connection: nn.Module, history: History, weights: Callable[[], Tensor]) -> RunningMix | None:
        """The connection's, of this pass, with h_0 in its place; None under torch.compile, which is given the plain sum. weights: asked for
        once a pass."""
        if connection not in history.memo:
            mix = None if torch.compiler.is_compiling() else RunningMix(weights())
            history.memo[connection] = mix
            if mix is not None:
                history.kept[0] = mix.put(history.kept[0], 0)
        found: RunningMix | None = history.memo[connection]
        return found

    def put(self, y: Tensor, k: int) -> Tensor:
        """y_k, from now on in its place among the others; the tensor given is not needed any more."""
        placed: Tensor = _Put.apply(y, self._states, k)
        self._new.append(placed)
        return placed

    def read(self, row: Tensor) -> Tensor:
        """x_l from row [l] of the weights, l the number of states so far."""
        x: Tensor
        x, self._above = _Read.apply(row, self._states, self._above, *self._new)
        self._new = []
        return x


class _States:
    """What both passes share; it holds nothing that autograd made, so that no cycle keeps a graph alive."""

    def __init__(self, weights: Tensor) -> None:
        self.weights = weights.detach().clone()
        self.y: Tensor | None = None
        self.dx: Tensor | None = None
        self.last = 0

    def place(self, y: Tensor, k: int) -> Tensor:
        if self.y is None:
            self.y = y.new_empty(len(self.weights), y.numel())
        # `data`: a version of its own, for that the rows above are written later changes nothing here
        return self.y.data[k].view(y.shape).copy_(y)

    def sum(self, l: int, like: Tensor) -> Tensor:
        assert self.y is not None
        return torch.mv(self.y[:l].t(), self.weights[l - 1, :l].to(like.dtype)).view(like.shape)

    def arrived(self, dx: Tensor | None, l: int) -> Tensor | None:
        """Note the gradient of x_l; the gradient of its row."""
        assert self.y is not None
        if self.dx is None or l >= self.last:  # a pass goes from the top down; this is its first step
            self.dx = torch.zeros_like(self.y)
        self.last = l
        if dx is None:
            return None
        self.dx[l - 1] = dx.flatten()
        return torch.mv(self.y[:l], self.dx[l - 1])

    def gradient(self, k: int, l: int) -> Tensor:
        """Of y_k, all of whose x are at l or above."""
        assert self.dx is not None
        return torch.mv(self.dx[l - 1 :].t(), self.weights[l - 1 :, k].to(self.dx.dtype))


class _Put(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, y: Tensor, states: _States, k: int) -> Tensor:
        return states.place(y, k)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return grad, None, None


class _Read(torch.autograd.Function):
    """(x_l, an empty tensor that the next one takes): it makes x_{l+1} come before x_l in the backward pass, whatever lies between."""

    @staticmethod
    def forward(ctx: Any, row: Tensor, states: _States, above: Tensor | None, *new: Tensor) -> tuple[Tensor, Tensor]:
        ctx.states, ctx.l, ctx.shape = states, len(row), new[0].shape
        ctx.set_materialize_grads(False)
        with torch.autocast(row.device.type, enabled=False):
            return states.sum(ctx.l, new[0]), new[0].new_empty(0)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor | None, _: None) -> tuple[Tensor | None, ...]:
        l, first = ctx.l, ctx.l - len(ctx.needs_input_grad) + 3
        with torch.autocast(ctx.states.weights.device.type, enabled=False):
            d_row = ctx.states.arrived(grad, l)
            d_new = (ctx.states.gradient(k, l).view(ctx.shape) if ctx.needs_input_grad[3 + k - first] else None for k in range(first, l))
            return d_row, None, None, *d_new
