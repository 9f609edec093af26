"""Optimisers, learning rates, and the moving average of weights."""

import inspect
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from models.paths import PATHS
from orchestrator.specs.schema import OptimSpec, Schedule
from orchestrator.training.muon import Muon

STATE = ("step", "exp_avg", "exp_avg_sq", "momentum_buffer")
"""Names of the optimisers' state tensors of a parameter."""


def learning_rate(schedule: Schedule, step: int, d_model: int, cuts: int = 0, length: int = 0) -> float:
    """Returns the rate of update `step` (from 1) of a phase. cuts: a plateau's cuts so far. length: updates of the phase, if needed.

    noam: Vaswani et al. 2017, Eq. 3; the others: `specs.optim.Schedule`.
    """
    if schedule.kind == "plateau":
        return schedule.rate_after(cuts)
    warmup = schedule.warmup if schedule.warmup_ratio is None else max(1, round(schedule.warmup_ratio * length))
    t, w = float(step), float(max(warmup, 1))
    if schedule.kind == "noam":
        return schedule.factor * d_model**-0.5 * min(t**-0.5, t * w**-1.5)
    assert schedule.lr is not None
    if step <= warmup:
        return schedule.lr * t / w
    if schedule.kind == "fixed":
        return schedule.lr
    if schedule.kind == "inverse-sqrt":
        return schedule.lr * (w / t) ** 0.5
    # cosine and wsd: x, how far the rate has fallen, goes from 0 at `start` to 1 at the end
    start = warmup if schedule.cooldown is None else max(warmup, length - round(schedule.cooldown * length))
    x = min(max((step - 1 - start) / max(length - start, 1), 0.0), 1.0)
    if schedule.kind == "cosine":
        factor = 0.5 * (1.0 + math.cos(math.pi * x))
    else:
        factor = 1.0 - (x if schedule.decay == "linear" else math.sqrt(x))
    floor = schedule.min_lr or 0.0
    return floor + (schedule.lr - floor) * factor


class _Unwrapped(torch.optim.Optimizer):
    """torch's optimiser without the decorators that import torch.compile at the first call (over a second, 800 modules)."""

    _step: Callable[..., float | None]

    add_param_group = inspect.unwrap(torch.optim.Optimizer.add_param_group)

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        return self._step(closure)


class Adam(_Unwrapped, torch.optim.Adam):
    _step = inspect.unwrap(torch.optim.Adam.step)


class NAG(_Unwrapped, torch.optim.SGD):
    """Nesterov's momentum: v = m v + g; w = w - rate * (g + m v). It equals fairseq's, which stores -rate * v. All velocities start at
    zero, also for parameters without a gradient."""

    _step = inspect.unwrap(torch.optim.SGD.step)


Optimizer: TypeAlias = Adam | NAG | Muon


def build_optimizer(model: nn.Module, spec: OptimSpec) -> Optimizer:
    """Returns the optimiser of `spec.kind` for every parameter. The rate is set before each update. Muon includes an Adam."""
    parameters = list(model.parameters())
    if spec.kind == "adam":
        return adam(model, spec, parameters)
    assert spec.momentum is not None
    if spec.kind == "muon":
        matrices = hidden_matrices(model)
        chosen = {id(matrix) for matrix in matrices}
        rest = adam(model, spec, [p for p in parameters if id(p) not in chosen])
        return Muon(by_rate(model, [{"params": matrices}]), rest, momentum=spec.momentum, weight_decay=spec.weight_decay)
    groups = by_rate(model, [{"params": parameters}])
    nag = NAG(groups, lr=0.0, momentum=spec.momentum, nesterov=True, fused=PATHS.fused_optimizer)
    for parameter in parameters:
        nag.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
    return nag


def hidden_matrices(model: nn.Module) -> list[nn.Parameter]:
    """Returns the weights of the linear maps, except the output layer. Mixing weights, embeddings and vectors are not among them."""
    maps = [module for module in model.modules() if isinstance(module, nn.Linear) and module is not getattr(model, "output", None)]
    return [weight for module in maps if (weight := module._parameters.get("weight")) is not None]


def by_rate(model: nn.Module, groups: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns the groups split by the innermost module's `rate`, a factor of the learning rate. Parameters without a rate come first."""
    factors = {id(p): rate for m in model.modules() if (rate := getattr(m, "rate", 1.0)) != 1.0 for p in m.parameters()}
    found = []
    for group in groups:
        parts: dict[float, list[nn.Parameter]] = {1.0: []}
        for parameter in group["params"]:
            parts.setdefault(factors.get(id(parameter), 1.0), []).append(parameter)
        found += [group | {"params": part, "rate": rate} for rate, part in parts.items() if part]
    return found


def adam(model: nn.Module, spec: OptimSpec, parameters: Sequence[nn.Parameter]) -> Adam:
    """Returns fused Adam. With `weight_decay` above 0 it is AdamW for the hidden matrices."""
    groups: list[dict[str, Any]] = [{"params": parameters}]
    if spec.weight_decay > 0:
        decayed = {id(matrix) for matrix in hidden_matrices(model)}
        groups = [
            {"params": [p for p in parameters if id(p) in decayed], "weight_decay": spec.weight_decay},
            {"params": [p for p in parameters if id(p) not in decayed]},
        ]
    return Adam(
        by_rate(model, groups),
        lr=0.0,
        betas=(spec.betas[0], spec.betas[1]),
        eps=spec.eps,
        fused=PATHS.fused_optimizer,
        decoupled_weight_decay=True,
    )


def set_lr(optimizer: Optimizer, rate: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = rate * group.get("rate", 1.0)


def optimizer_tensors(model: nn.Module, optimizer: Optimizer) -> dict[str, Tensor]:
    """Returns the optimiser's state by parameter name."""
    return {
        f"{name}.{key}": value
        for name, parameter in model.named_parameters()
        for key, value in optimizer.state.get(parameter, {}).items()
        if isinstance(value, Tensor)
    }


def load_optimizer(model: nn.Module, optimizer: Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Loads the result of `optimizer_tensors`."""
    for name, parameter in model.named_parameters():
        state = {key: tensors[f"{name}.{key}"].to(parameter.device, copy=True) for key in STATE if f"{name}.{key}" in tensors}
        if state:
            optimizer.state[parameter] = state


def clip_gradients(model: nn.Module, max_norm: float) -> Tensor | None:
    """Scales the gradients to at most `max_norm`. Returns their norm before; None: clipping is off."""
    return torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm) if max_norm > 0 else None


class MovingAverage:
    """Moving average of the weights (Polyak and Juditsky 1992; the warm-up of the decay as in TensorFlow):
    a_t = d_t a_(t-1) + (1 - d_t) w_t, d_t = min(decay, (1 + t) / (10 + t)), in fp32; a_0 are the initial weights.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.weights = {name: p.detach() for name, p in model.named_parameters()}
        self.average = {name: p.clone() for name, p in self.weights.items()}

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Updates the average after update `step` (from 1)."""
        decay = min(self.decay, (1 + step) / (10 + step))
        torch._foreach_lerp_(list(self.average.values()), list(self.weights.values()), 1.0 - decay)

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Loads the average of a checkpoint."""
        for name, average in self.average.items():
            average.copy_(tensors[name])
