"""Optimisers and learning rate schedules."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

from models.paths import PATHS
from orchestrator.specs.schema import OptimSpec, Schedule

STATE = ("step", "exp_avg", "exp_avg_sq", "momentum_buffer")
"""Names of the optimisers' state of a parameter."""


def learning_rate(schedule: Schedule, step: int, d_model: int, cuts: int = 0) -> float:
    """The rate of update `step` (from 1). cuts: of a plateau, so far. noam: Vaswani et al. 2017, Eq. 3."""
    if schedule.kind == "plateau":
        return schedule.rate_after(cuts)
    t, warmup = float(step), float(max(schedule.warmup, 1))
    if schedule.kind == "noam":
        return schedule.factor * d_model**-0.5 * min(t**-0.5, t * warmup**-1.5)
    assert schedule.lr is not None
    ramp = min(1.0, t / warmup) if schedule.warmup else 1.0
    if schedule.kind == "fixed" or t <= warmup:
        return schedule.lr * ramp
    return schedule.lr * (warmup / t) ** 0.5


class _Unwrapped(torch.optim.Optimizer):
    """torch's optimiser without the decorators that import torch.compile at the first call (over a second, 800 modules).

    They exclude a method from compilation; here none is compiled, because `train.compile` compiles only the network.
    """

    _step: Callable[..., float | None]

    add_param_group = inspect.unwrap(torch.optim.Optimizer.add_param_group)
    zero_grad = inspect.unwrap(torch.optim.Optimizer.zero_grad)
    state_dict = inspect.unwrap(torch.optim.Optimizer.state_dict)
    load_state_dict = inspect.unwrap(torch.optim.Optimizer.load_state_dict)

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        return self._step(closure)


class Adam(_Unwrapped, torch.optim.Adam):
    _step = inspect.unwrap(torch.optim.Adam.step)


class NAG(_Unwrapped, torch.optim.SGD):
    """Nesterov's momentum: v = m v + g; w = w - rate * (g + m v), with the rate outside of v.

    fairseq keeps -rate * v in place of v and corrects it at each change of the rate by new / old: the same updates. Velocities start
    at zero, for every parameter: one without a gradient stays where it is, and may have one later.
    """

    _step = inspect.unwrap(torch.optim.SGD.step)


def build_optimizer(model: nn.Module, spec: OptimSpec) -> Adam | NAG:
    """The optimiser of `spec.kind` over every parameter, fused; the rate is set before each update."""
    if spec.kind == "adam":
        return Adam(model.parameters(), lr=0.0, betas=(spec.betas[0], spec.betas[1]), eps=spec.eps, fused=PATHS.fused_optimizer)
    assert spec.momentum is not None
    nag = NAG(model.parameters(), lr=0.0, momentum=spec.momentum, nesterov=True, fused=PATHS.fused_optimizer)
    for parameter in model.parameters():
        nag.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
    return nag


def set_lr(optimizer: torch.optim.Optimizer, rate: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = rate


def optimizer_tensors(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The optimiser's state by parameter name."""
    return {
        f"{name}.{key}": value
        for name, parameter in model.named_parameters()
        for key, value in optimizer.state.get(parameter, {}).items()
        if isinstance(value, Tensor)
    }


def load_optimizer(model: nn.Module, optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """The inverse of `optimizer_tensors`."""
    for name, parameter in model.named_parameters():
        state = {key: tensors[f"{name}.{key}"].clone() for key in STATE if f"{name}.{key}" in tensors}
        if state:
            optimizer.state[parameter] = {
                k: v if k == "step" and not parameter.is_cuda else v.to(parameter.device) for k, v in state.items()
            }


def clip_gradients(model: nn.Module, max_norm: float) -> Tensor | None:
    """Scales the gradients to at most `max_norm`; returns their norm before, None where clipping is off."""
    return torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm) if max_norm > 0 else None
