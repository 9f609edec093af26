"""The optimisers and the papers' learning rates."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

from models.paths import PATHS
from orchestrator.specs.schema import OptimSpec, Schedule

STATE = ("step", "exp_avg", "exp_avg_sq", "momentum_buffer")
"""What the optimisers keep of a parameter."""


def learning_rate(schedule: Schedule, step: int, d_model: int, cuts: int = 0) -> float:
    """The rate of update `step` (from 1), `cuts`: of a plateau, so far. noam: Vaswani et al. 2017, Eq. 3."""
    if schedule.kind == "plateau":
        return schedule.rate_after(cuts)
    t, warmup = float(step), float(max(schedule.warmup, 1))
    if schedule.kind == "noam":
        return schedule.factor * d_model**-0.5 * min(t**-0.5, t * warmup**-1.5)
    assert schedule.lr is not None
    rising = min(1.0, t / warmup) if schedule.warmup else 1.0
    if schedule.kind == "fixed" or t <= warmup:
        return schedule.lr * rising
    return schedule.lr * (warmup / t) ** 0.5


class _Light(torch.optim.Optimizer):
    """torch's, without the wrappers that load all of torch.compile at the first call (over a second, 800 modules) to be left alone by it.

    Nothing here is called inside a compiled region: `train.compile` compiles the network alone.
    """

    _step: Callable[..., float | None]

    add_param_group = inspect.unwrap(torch.optim.Optimizer.add_param_group)
    zero_grad = inspect.unwrap(torch.optim.Optimizer.zero_grad)
    state_dict = inspect.unwrap(torch.optim.Optimizer.state_dict)
    load_state_dict = inspect.unwrap(torch.optim.Optimizer.load_state_dict)

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        return self._step(closure)


class Adam(_Light, torch.optim.Adam):
    _step = inspect.unwrap(torch.optim.Adam.step)


class NAG(_Light, torch.optim.SGD):
    """Nesterov's momentum: v = m v + g; w = w - rate * (g + m v), with the rate outside of v.

    fairseq keeps -rate * v in place of v and corrects it at each change of the rate by new / old: the same updates. Velocities start
    at zero, for every parameter: one without a gradient stays where it is, and may have one later.
    """

    _step = inspect.unwrap(torch.optim.SGD.step)


def optimizer(model: nn.Module, spec: OptimSpec) -> Adam | NAG:
    """That of `spec.kind`, over every parameter; the rate is set before each update."""
    return adam(model, spec) if spec.kind == "adam" else nag(model, spec)


def adam(model: nn.Module, spec: OptimSpec) -> Adam:
    """Fused Adam."""
    return Adam(model.parameters(), lr=0.0, betas=(spec.betas[0], spec.betas[1]), eps=spec.eps, fused=PATHS.fused_optimizer)


def nag(model: nn.Module, spec: OptimSpec) -> NAG:
    """Fused Nesterov momentum."""
    assert spec.momentum is not None
    found = NAG(model.parameters(), lr=0.0, momentum=spec.momentum, nesterov=True, fused=PATHS.fused_optimizer)
    for parameter in model.parameters():
        found.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
    return found


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
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


def clip(model: nn.Module, max_norm: float) -> Tensor | None:
    """Scale the gradients to at most `max_norm`; the norm before, or None where clipping is off."""
    return torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm) if max_norm > 0 else None
