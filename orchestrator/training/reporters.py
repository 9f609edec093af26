"""Reporters of a training. The loop knows only their `on_report`."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from orchestrator.errors import StopTraining
from orchestrator.files.json_lines import JsonLines
from orchestrator.ledger.results import Ledger
from orchestrator.training.metrics import SAMPLES, history_lines


class HistoryReporter:
    """Appends every report to `history.jsonl`, which progress bars, MLflow and figures read."""

    def __init__(self, path: Path) -> None:
        self.lines = JsonLines(path, points="history")

    def on_report(self, metrics: dict[str, Any], checkpoint: Path | None) -> None:
        for line in history_lines(metrics):
            self.lines.append(line | {"t": round(time.time(), 3)})

    def close(self) -> None:
        self.lines.close()


class RungReporter:
    """Makes a rung's metrics durable, then asks `decide` whether to continue."""

    def __init__(self, ledger: Ledger, train_key: str, decide: Callable[[dict[str, Any]], bool]) -> None:
        self.ledger, self.train_key, self.decide = ledger, train_key, decide

    def on_report(self, metrics: dict[str, Any], checkpoint: Path | None) -> None:
        if "rung" not in metrics:
            return
        self.ledger.write_rung(self.train_key, metrics["rung"], {name: value for name, value in metrics.items() if name != SAMPLES})
        if not self.decide(metrics):
            raise StopTraining("stopped", f"stopped by ASHA at step {metrics['rung']}")
