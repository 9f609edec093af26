"""Gradient norms of each encoder layer during training (Wei et al. 2020, Fig. 5).

Shapes: P tensors that have a gradient, L encoder layers.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from models.transformer import Transformer

METRIC = "gradient_norm/encoder"
"""In a line of the history: layer (from 1) -> L2 norm over all its parameters, before clipping."""
SAMPLES = "gradient_norms"
"""In a report: [step, [norm of layer 1, ...]] of each update recorded since the last one."""


class GradientNorms:
    """Norms of every `every`-th update (0: none), kept on the device until a report, so that no step waits for it.

    They are of the whole update: under DDP the gradients are the mean over workers of losses that are scaled by their number.
    """

    def __init__(self, model: Transformer, every: int) -> None:
        self.every = every
        self.layers = [list(layer.parameters()) for layer in model.encoder.layers]
        self.samples: list[tuple[int, Tensor]] = []

    @torch.no_grad()
    def record(self, step: int) -> None:
        """Records the norms of update `step` if they are due."""
        if not self.every or step % self.every:
            return
        gradients = [[p.grad for p in layer if p.grad is not None] for layer in self.layers]
        norms_P = torch._foreach_norm([gradient.detach() for layer in gradients for gradient in layer])
        parts = torch.stack(norms_P).float().split([len(layer) for layer in gradients])
        self.samples.append((step, torch.stack(torch._foreach_norm(list(parts)))))  # the norm of the norms is the layer's norm

    def flush(self) -> dict[str, Any]:
        """Norms since the last call, for a report; empty if there are none. Waits for the device once."""
        if not self.samples:
            return {}
        steps, norms = zip(*self.samples, strict=True)
        self.samples = []
        values = torch.stack(norms).tolist()
        return {SAMPLES: [[step, [float(f"{value:.6g}") for value in row]] for step, row in zip(steps, values, strict=True)]}


def history_lines(report: dict[str, Any]) -> list[dict[str, Any]]:
    """A report as lines of the history: one for each recorded update, then the rest of the report, if there is any."""
    samples = report.get(SAMPLES, [])
    norm_lines = [{"step": step, METRIC: {str(l): norm for l, norm in enumerate(norms, start=1)}} for step, norms in samples]
    rest = {name: value for name, value in report.items() if name != SAMPLES}
    return [*norm_lines, rest] if not samples or set(rest) - {"step"} else norm_lines
