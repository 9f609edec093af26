"""A progress bar with rate and time left, for analyses that take long; without a terminal, only the lines that are told."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.text import Text

from orchestrator.safe_text import visible


class Rate(ProgressColumn):
    """Units a second, lately."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:,.1f} {task.fields['unit']}/s")


class Bars:
    """Bars on stderr, one for each kind of work."""

    def __init__(self) -> None:
        console = Console(stderr=True, highlight=False)
        columns = (TextColumn("{task.description}"), BarColumn(bar_width=24), MofNCompleteColumn(), Rate(), TimeElapsedColumn())
        self.progress = Progress(*columns, TimeRemainingColumn(), console=console, disable=not console.is_terminal)

    def __enter__(self) -> Bars:
        self.progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.progress.stop()

    def bar(self, name: str, total: int, unit: str) -> Bar:
        return Bar(self.progress, name, total, unit)

    def tell(self, line: str) -> None:
        self.progress.console.print(visible(line), markup=False, soft_wrap=True)


class Bar:
    """One bar; call it with how much more is done."""

    def __init__(self, progress: Progress, name: str, total: int, unit: str) -> None:
        self.progress, self.task = progress, progress.add_task(name, total=total, unit=unit)

    def __call__(self, done: int = 1) -> None:
        self.progress.advance(self.task, done)

    def close(self) -> None:
        self.progress.remove_task(self.task)
