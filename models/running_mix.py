"""Weighted sums over a growing list of states, each state kept once.

Shapes: K states at most, M numbers in a state.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


class RunningMix:
    """x_l = sum_{k<l} w_k y_k for l = 1, 2, .., each from a list that is longer by one state. Nothing but y_{l-1} and the x_l made of it may
    lie between one call and the next, as in a stack of layers, where y_l depends on x_l.

    The states lie side by side in one [K, M] tensor, so that each sum is one product and reads every state once. Backwards, the gradient
    of y_k is the sum of w_{l,k} dx_l over the l > k, and all of them are there when it is asked for: y_k comes before x_{k+1}, and that
    before every later x. So the dx_l are kept instead of K growing sums. Memory is 2 K states; autograd itself would keep a copy or a
    product of each state for each layer.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.states: Tensor | None = None
        self.gradients: Tensor | None = None
        self.rows: list[Tensor] = []
        self.last = 0

    def __call__(self, weights: Tensor, states: list[Tensor]) -> Tensor:
        """weights [l]; states: all l so far, of one shape."""
        if torch.compiler.is_compiling():
            return torch.stack([w * y for w, y in zip(weights.unbind(0), states, strict=True)]).sum(0)
        return _Mix.apply(weights, states[-1], self, len(states))

    def add(self, weights: Tensor, newest: Tensor, l: int) -> Tensor:
        if self.states is None:
            self.states = newest.new_empty(self.most, newest.numel())
        self.states[l - 1].copy_(newest.flatten())
        return torch.mv(self.states[:l].t(), weights.to(newest.dtype)).view(newest.shape)

    def back(self, weights: Tensor, grad: Tensor, l: int) -> tuple[Tensor, Tensor]:
        """Gradients of the weights [l] and of y_{l-1}, given that of x_l."""
        assert self.states is not None
        flat = grad.flatten()
        if self.gradients is None or l >= self.last:  # a pass goes down the layers; this is the first step of one
            self.gradients = flat.new_zeros(self.most, flat.numel())
            self.rows = [weights.new_zeros(self.most)] * self.most
        self.last = l
        self.gradients[l - 1] = flat
        self.rows[l - 1] = weights
        column = torch.stack([row[l - 1] for row in self.rows[l - 1 :]]).to(grad.dtype)
        return torch.mv(self.states[:l], flat), torch.mv(self.gradients[l - 1 :].t(), column).view(grad.shape)


class _Mix(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weights: Tensor, newest: Tensor, mix: RunningMix, l: int) -> Tensor:
        ctx.save_for_backward(weights)
        ctx.mix, ctx.l = mix, l
        with torch.autocast(newest.device.type, enabled=False):
            return mix.add(weights, newest, l)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None, None]:
        with torch.autocast(grad.device.type, enabled=False):
            return *ctx.mix.back(*ctx.saved_tensors, grad, ctx.l), None, None
