"""Reports of a run, appended as a training appends them."""

from __future__ import annotations

from typing import Any

from orchestrator.files.json_lines import JsonLines
from orchestrator.ledger.results import Ledger


def append_history(ledger: Ledger, train_key: str, report: dict[str, Any]) -> None:
    with JsonLines(ledger.run_dir(train_key) / "history.jsonl") as lines:
        lines.append(report)
