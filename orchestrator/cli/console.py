"""rich's console and tables as commands print them."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from rich.console import Console
from rich.table import Table

from orchestrator.safe_text import cell


def console(*, stderr: bool = False) -> Console:
    """A console that is 140 columns wide where the stream is no terminal."""
    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr, highlight=False, width=None if stream.isatty() else 140)


def make_table(columns: Iterable[str], *, title: str | None = None, numeric: Iterable[str] = ()) -> Table:
    """A table without rows. Columns in `numeric` are aligned right; long cells are folded."""
    right = set(numeric)
    table = Table(title=None if title is None else cell(title), title_justify="left")
    for name in columns:
        table.add_column(cell(name), justify="right" if name in right else "left", overflow="fold")
    return table
