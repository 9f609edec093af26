"""Progress bars of runs on any engine, driven by each run's `history.jsonl`."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from orchestrator.safe_text import visible
from orchestrator.sweeps.task import Task
from orchestrator.training.warm_start import describe

POLL_SECONDS = 0.5

NOTES = (("train/nll", "nll", ".2f"), ("valid/nll", "valid", ".2f"), ("train/lr", "lr", ".2g"), ("train/tokens_per_second", "tok/s", ".0f"))
"""(metric, label, format) of the figures beside a bar."""


class Tail:
    """Reads the complete lines appended to a JSON-lines file since the last `read`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.offset = path.stat().st_size if path.exists() else 0

    def read(self) -> list[dict[str, Any]]:
        if not self.path.exists():
            return []
        with self.path.open("rb") as file:
            file.seek(self.offset)
            data = file.read()
        complete = data[: data.rfind(b"\n") + 1]
        self.offset += len(complete)
        return [json.loads(line) for line in complete.splitlines() if line.strip()]


class ProgressBars:
    """A bar for the sweep and one for each active run; without a terminal, a line at each validation."""

    def __init__(self, tasks: Sequence[Task], console: Console) -> None:
        self.tasks, self.console = list(tasks), console
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        self.tails = {task.name: Tail(task.run_dir / "history.jsonl") for task in self.tasks}
        self.bars: dict[str, TaskID] = {}
        self.totals: dict[str, int] = {}
        self.finished: set[str] = set()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="progress", daemon=True)

    def __enter__(self) -> ProgressBars:
        self.progress.start()
        self.sweep_bar = self.progress.add_task("runs", total=len(self.tasks), note="")
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._closed.set()
        self._thread.join(timeout=5)
        self._poll()
        self.progress.stop()

    def _follow(self) -> None:
        while not self._closed.wait(POLL_SECONDS):
            self._poll()

    def _poll(self) -> None:
        for task in self.tasks:
            for line in self.tails[task.name].read():
                self._update(task.name, line)
            if task.name not in self.finished and (task.run_dir / "train.json").exists() and task.name in self.bars:
                self.finished.add(task.name)
                self.progress.update(self.bars[task.name], visible=False)
        self.progress.update(self.sweep_bar, completed=len(self.finished))

    def _update(self, name: str, line: dict[str, Any]) -> None:
        step = int(line["step"])
        self.totals[name] = int(line.get("total_steps", self.totals.get(name, 0)))
        messages = [line["warning"]] if "warning" in line else []
        messages += describe(line["warm_start"]) if "warm_start" in line else []
        for message in messages:
            self.console.print(visible(f"{name}: {message}"), highlight=False, markup=False)
        if name not in self.bars:
            self.bars[name] = self.progress.add_task(name, total=self.totals[name] or None, completed=step, note="")
        note = "  ".join(f"{label} {line[metric]:{spec}}" for metric, label, spec in NOTES if metric in line)
        fields: dict[str, Any] = {"note": note} if note else {}
        self.progress.update(self.bars[name], completed=step, total=self.totals[name] or None, **fields)
        if not self.console.is_terminal and "valid/nll" in line:
            self.console.print(f"{name}: step {step}/{self.totals[name] or '?'}  {note}", highlight=False, soft_wrap=True)
