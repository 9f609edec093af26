"""Muon with one batched iteration for all matrices of equal shape, and another optimiser for the other parameters."""

import math
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from models.precision import operand

COEFFICIENTS = (3.4445, -4.7750, 2.0315)
STEPS = 5
"""Coefficients of the Newton-Schulz iteration (Jordan 2024)."""


class Muon:
    """Momentum with orthogonalised updates for matrices (Jordan 2024), and the optimiser `rest` for all other parameters.
    m = momentum * m + (1 - momentum) * g; W = (1 - lr * weight_decay) * W - lr * 0.2 * sqrt(max(rows, columns)) * orthogonal(u)
    with Nesterov's u = momentum * m + (1 - momentum) * g. The factor 0.2 sqrt(..) gives updates the size of Adam's (Liu et al. 2025).
    On a CPU the batched iteration is about 1.6 times as fast as `torch.optim.Muon`.
    """

    def __init__(self, groups: Iterable[dict[str, Any]], rest: torch.optim.Optimizer, *, momentum: float, weight_decay: float) -> None:
        """groups: mappings with the matrices (`params`). `set_lr` adds their learning rate (`lr`)."""
        self.groups, self.rest, self.momentum, self.weight_decay = [group | {"lr": 0.0} for group in groups], rest, momentum, weight_decay
        self.state = rest.state
        self.param_groups = [*self.groups, *rest.param_groups]

    @torch.no_grad()
    def step(self) -> None:
        for group in self.groups:
            shapes: dict[tuple[int, int], list[Tensor]] = defaultdict(list)
            for matrix in group["params"]:
                if matrix.grad is not None:
                    shapes[min(matrix.shape), max(matrix.shape)].append(matrix)
            for (_, columns), matrices in shapes.items():
                updates = orthogonal(self._momenta(matrices)).float()
                torch._foreach_mul_(matrices, 1 - group["lr"] * self.weight_decay)
                steps = [step if step.shape == matrix.shape else step.mT for matrix, step in zip(matrices, updates, strict=True)]
                torch._foreach_add_(matrices, steps, alpha=-group["lr"] * 0.2 * math.sqrt(columns))
        self.rest.step()

    def _momenta(self, matrices: list[Tensor]) -> Tensor:
        """Updates the momenta; returns Nesterov's updates of all matrices, [n, rows, columns] with rows <= columns."""
        gradients = [matrix.grad for matrix in matrices if matrix.grad is not None]
        for matrix in matrices:
            if "momentum_buffer" not in self.state[matrix]:
                self.state[matrix]["momentum_buffer"] = torch.zeros_like(matrix)
        buffers = [self.state[matrix]["momentum_buffer"] for matrix in matrices]
        torch._foreach_lerp_(buffers, gradients, 1 - self.momentum)
        updates = torch._foreach_lerp(gradients, buffers, self.momentum)
        return torch.stack([u.mT if u.size(0) > u.size(1) else u for u in updates])


def orthogonal(matrices: Tensor) -> Tensor:
    """Replaces the singular values of matrices [n, rows, columns], rows <= columns, by values near 1; computed in bf16."""
    a, b, c = COEFFICIENTS
    x = matrices.bfloat16()
    x = x / torch.linalg.vector_norm(x, dim=(1, 2), keepdim=True).clamp(min=1e-7)
    for _ in range(STEPS):
        x = operand(x, torch.bfloat16)
        gram = operand(x @ x.mT, torch.bfloat16)
        x = torch.baddbmm(x, operand(torch.baddbmm(gram, gram, gram, beta=b, alpha=c), torch.bfloat16), x, beta=a)
    return x.bfloat16()
