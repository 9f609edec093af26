"""Adam and the papers' learning rates."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

from models.paths import PATHS
from orchestrator.spec import OptimSpec, Schedule


def learning_rate(schedule: Schedule, step: int, d_model: int) -> float:
    """The rate of update `step` (from 1). noam: Vaswani et al. 2017, Eq. 3."""
    t, warmup = float(step), float(max(schedule.warmup, 1))
    if schedule.kind == "noam":
        return schedule.factor * d_model**-0.5 * min(t**-0.5, t * warmup**-1.5)
    assert schedule.lr is not None
    rising = min(1.0, t / warmup) if schedule.warmup else 1.0
    if schedule.kind == "fixed" or t <= warmup:
        return schedule.lr * rising
    return schedule.lr * (warmup / t) ** 0.5


class Adam(torch.optim.Adam):
    """torch's, without the wrappers that load all of torch.compile at the first call (over a second, 800 modules) to be left alone by it.

    Nothing here is called inside a compiled region: `train.compile` compiles the network alone.
    """

    _step = inspect.unwrap(torch.optim.Adam.step)

    add_param_group = inspect.unwrap(torch.optim.Adam.add_param_group)
    zero_grad = inspect.unwrap(torch.optim.Adam.zero_grad)
    state_dict = inspect.unwrap(torch.optim.Adam.state_dict)
    load_state_dict = inspect.unwrap(torch.optim.Adam.load_state_dict)

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        return self._step(closure)


def adam(model: nn.Module, spec: OptimSpec) -> Adam:
    """Fused Adam over every parameter; the rate is set before each update."""
    return Adam(model.parameters(), lr=0.0, betas=(spec.betas[0], spec.betas[1]), eps=spec.eps, fused=PATHS.fused_optimizer)


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = rate


def optimizer_tensors(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Adam's state by parameter name."""
    return {
        f"{name}.{key}": value
        for name, parameter in model.named_parameters()
        for key, value in optimizer.state.get(parameter, {}).items()
        if isinstance(value, Tensor)
    }


def load_optimizer(model: nn.Module, optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """The inverse of `optimizer_tensors`."""
    for name, parameter in model.named_parameters():
        state = {key: tensors[f"{name}.{key}"].clone() for key in ("step", "exp_avg", "exp_avg_sq") if f"{name}.{key}" in tensors}
        if state:
            optimizer.state[parameter] = {
                k: v if k == "step" and not parameter.is_cuda else v.to(parameter.device) for k, v in state.items()
            }


def clip(model: nn.Module, max_norm: float) -> Tensor | None:
    """Scale the gradients to at most `max_norm`; the norm before, or None where clipping is off."""
    return torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm) if max_norm > 0 else None
