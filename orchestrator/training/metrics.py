"""Training metrics between two reports, which stay on the device until a report, and the reporters that receive them.

Shapes: P tensors with a gradient.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from models.transformer import Transformer
from orchestrator.errors import StopTraining
from orchestrator.files.json_lines import JsonLines
from orchestrator.ledger.results import Ledger
from orchestrator.training.batches import Update
from orchestrator.training.runtime import Runtime
from orchestrator.training.state import Progress

METRIC = "gradient_norm/encoder"
"""In a line of the history: layer (from 1) -> L2 norm over all its parameters, before clipping."""
SAMPLES = "gradient_norms"
"""In a report: [step, [norm of layer 1, ...]] of each update recorded since the last one."""

EMPTY: Mapping[str, Any] = {"sums": {}, "steps": 0, "tokens": 0, "seconds": 0.0}
"""State of a meter without updates."""


class Meter:
    """Accumulates the logs of updates in float64; `read` returns their metrics and resets. `read` and `state` are collective."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.load(EMPTY)

    def add(self, progress: Progress, update: Update, sums: dict[str, Tensor], seconds: float) -> None:
        self.steps += 1
        self.tokens += update.tgt_tokens
        self.seconds += seconds
        progress.tgt_tokens += update.tgt_tokens
        progress.real_tokens += update.tgt_tokens + update.src_tokens
        progress.padded_tokens += update.padded_tokens
        progress.seconds += seconds
        for name, value in sums.items():
            self.sums[name] = self.sums[name] + value if name in self.sums else value.double()

    def _totals(self) -> dict[str, float]:
        """Returns the sums over all workers."""
        names = sorted(self.sums)
        return dict(zip(names, self.runtime.sum(torch.stack([self.sums[name] for name in names])).tolist(), strict=True)) if names else {}

    def read(self) -> dict[str, Any]:
        """Returns nll and loss per target token, accuracy of the sampled positions, and regularizers as mean per update. Then resets."""
        if not self.steps:
            return {}
        totals, metrics = self._totals(), dict[str, Any]()
        metrics["train/accuracy"] = totals.pop("right") / max(1.0, totals.pop("sampled"))
        for name, value in totals.items():
            metrics[f"train/{name}"] = value / (self.tokens if name in ("nll", "loss") else self.steps)
        metrics["train/tokens_per_second"] = round(self.tokens / self.seconds, 1) if self.seconds else 0.0
        self.load(EMPTY)
        return metrics

    def state(self) -> dict[str, Any]:
        """Returns the sums that no report holds yet, for a checkpoint."""
        state = {"sums": self._totals(), "steps": self.steps, "tokens": self.tokens, "seconds": self.seconds}
        self.load(state)
        return state

    def load(self, state: Mapping[str, Any]) -> None:
        """Loads the sums of a checkpoint. The main worker continues the sums of all workers; the others start from 0."""
        self.steps, self.tokens, self.seconds = state["steps"], state["tokens"], state["seconds"]
        share = float(self.runtime.is_main)
        self.sums = {
            name: torch.tensor(total * share, dtype=torch.float64, device=self.runtime.device) for name, total in state["sums"].items()
        }


class GradientNorms:
    """Gradient norms of encoder layers at every `every`-th update (Wei et al. 2020, Fig. 5); 0: none. On the device until a report."""

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
        """Returns the norms since the last call, for a report; empty without any. Waits for the device once."""
        if not self.samples:
            return {}
        steps, norms = zip(*self.samples, strict=True)
        self.samples = []
        values = torch.stack(norms).tolist()
        return {SAMPLES: [[step, [float(f"{value:.6g}") for value in row]] for step, row in zip(steps, values, strict=True)]}


def history_lines(report: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns a report as lines of the history: one line per recorded update, then the rest of the report, if any."""
    samples = report.get(SAMPLES, [])
    norm_lines = [{"step": step, METRIC: {str(l): norm for l, norm in enumerate(norms, start=1)}} for step, norms in samples]
    rest = {name: value for name, value in report.items() if name != SAMPLES}
    return [*norm_lines, rest] if not samples or set(rest) - {"step"} else norm_lines


class HistoryReporter(JsonLines):
    """Appends every report to `history.jsonl`, which progress bars, MLflow and figures read."""

    def __call__(self, metrics: dict[str, Any]) -> None:
        for line in history_lines(metrics):
            self.append(line | {"t": round(time.time(), 3)})
        self.sync()  # a later checkpoint does not repeat them


def write_rung(ledger: Ledger, train_key: str, metrics: dict[str, Any]) -> None:
    """Writes a rung's metrics to the ledger."""
    if "rung" in metrics:
        ledger.write_rung(train_key, metrics["rung"], {name: value for name, value in metrics.items() if name != SAMPLES})


class RungReporter:
    """Sends a rung's metrics to `decide`. If the answer is False, it ends the run, which is already saved. by: name of the scheduler."""

    def __init__(self, name: str, decide: Callable[[dict[str, Any]], bool | None], by: str = "ASHA") -> None:
        self.name, self.decide, self.by = name, decide, by

    def __call__(self, metrics: dict[str, Any]) -> None:
        if "rung" in metrics:
            rung = {"run": self.name} | {k: v for k, v in metrics.items() if isinstance(v, (int, float))}
            if self.decide(rung) is False:
                raise StopTraining(f"stopped by {self.by} at step {rung['rung']}")
