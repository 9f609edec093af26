"""Mixtures of a growing list of states. Memory holds each state once; the backward pass is written by hand.

x_l is a function of learned numbers r_l and of the states y_0 .. y_{l-1}. All states lie in one tensor. The backward pass runs from the top
layer down. It computes the gradient of y_k once, at the lowest x_l that reads y_k. The gradients of all higher x are known by then.
Memory is 2 K states for K places. Autograd would save data for every pair of y_k and x_l.
"""

import functools
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from models.precision import full_precision


class States:
    """The states of one pass. A subclass implements `place`, `mix` and `begin`. It holds no tensor with an autograd graph, because such a
    cycle would keep the graph alive. place(y, k): copies y to place k and returns the copy. mix(r_l, l): returns x_l, then tensors that
    its gradient needs. begin(top): returns the gradients of a backward pass that starts at x_top. This object has `arrived(l, dx, r_l,
    more)`, which returns the gradient of r_l, and `of(k, l)`, which returns the gradient of y_k if only x_l and higher x read y_k."""

    gradients: Any = None
    last = 0

    def put(self, y: Tensor, k: int) -> Tensor:
        """Copies y to place k and returns the copy y_k. The given tensor may be freed."""
        placed: Tensor = _Put.apply(y, self, k)
        return placed

    def read(self, row: Tensor, l: int, above: Tensor | None, *new: Tensor) -> tuple[Tensor, Tensor]:
        """Returns (x_l, `above` for the next read). row: r_l. new: results of `put` that no earlier x has read.

        `above` makes the backward pass reach x_{l+1} before x_l, whatever the graph between them."""
        x, above = _Read.apply(row, self, l, above, *new)
        return x, above


@functools.cache  # once a process, however many models are compiled
def leave_to_python() -> None:
    """Makes torch.compile break its graphs at `put` and `read`: places that share memory cannot be inputs of one graph."""
    States.put, States.read = torch.compiler.disable(States.put), torch.compiler.disable(States.read)  # type: ignore[method-assign]


class _Put(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, y: Tensor, states: Any, k: int) -> Any:
        ctx.dtype = y.dtype
        return states.place(y, k)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return grad.to(ctx.dtype), None, None


class _Read(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, row: Tensor, states: Any, l: int, above: Tensor | None, *new: Tensor) -> tuple[Tensor, Tensor]:
        ctx.states, ctx.l, ctx.shape = states, l, new[0].shape
        ctx.set_materialize_grads(False)
        with full_precision(row):
            x, *more = states.mix(row, l)
        ctx.save_for_backward(row, *more)
        return x.view(ctx.shape), x.new_empty(0)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor | None, _: None) -> tuple[Tensor | None, ...]:
        states, l, needed = ctx.states, ctx.l, ctx.needs_input_grad[4:]
        row, *more = ctx.saved_tensors
        with full_precision(row):
            if states.gradients is None or l >= states.last:  # the first step of a backward pass
                states.gradients = states.begin(l)
            states.last, gradients = l, states.gradients
            d_row = gradients.arrived(l, grad, row, *more)
            d_new = [gradients.of(k, l).view(ctx.shape) if need else None for k, need in enumerate(needed, start=l - len(needed))]
            if l == len(needed):
                states.gradients = None
        return d_row, None, None, None, *d_new
