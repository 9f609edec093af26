"""Mixtures of a growing list of states, each kept once, with gradients by hand.

x_l is made of learned numbers r_l and the states y_0 .. y_{l-1}, for growing l. The states lie side by side in one tensor. Backwards, the
gradient of y_k is made at one time, when the first x_l that y_k is in asks for it, and by then the gradients of all x above are there.
Memory is 2 K states for K places; autograd would hold something of every y_k for every x_l.
"""

import functools
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from models.precision import full_precision


class States:
    """A subclass has the places and the equation. It holds nothing that autograd made, so that no cycle keeps a graph alive.

    place(y, k): the copy of y in place k. mix(r_l, l): x_l, and more that its gradient needs. begin(top): the gradients of a backward pass
    from x_top down, with `arrived(l, dx, r_l, more)`: the gradient of r_l, and `of(k, l)`: that of y_k, all of whose x are at l or above.
    """

    gradients: Any = None
    last = 0

    def put(self, y: Tensor, k: int) -> Tensor:
        """y_k, from now on in its place among the others; the tensor given is not needed any more."""
        placed: Tensor = _Put.apply(y, self, k)
        return placed

    def read(self, row: Tensor, l: int, above: Tensor | None, *new: Tensor) -> tuple[Tensor, Tensor]:
        """(x_l, what the next read takes as `above`) from r_l. new: as `put` gave them, those y that no x has had so far.

        `above` makes x_{l+1} come before x_l in the backward pass, whatever lies between."""
        x, above = _Read.apply(row, self, l, above, *new)
        return x, above


@functools.cache  # once a process, however many models are compiled
def leave_to_python() -> None:
    """Under torch.compile graphs end before states are put or read: places that share memory cannot be inputs of one graph."""
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
