"""Tells that a phase of a command lasts: a spinner on a terminal, elsewhere a line."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console

from orchestrator.safe_text import log, visible

QUIET = 1.0
"""Seconds after which a phase is told at all, without a terminal."""


@contextmanager
def phase(what: str, console: Console | None = None) -> Iterator[Callable[[str], None]]:
    """Context: the phase `what` lasts. Yields a function that changes its text. console: where else is printed meanwhile."""
    console = console or Console(file=sys.stderr)
    if console.is_terminal:
        with console.status(visible(what)) as status:
            yield lambda text: status.update(visible(text))
        return
    timer = threading.Timer(QUIET, log, (what,))
    timer.start()
    try:
        yield lambda text: None
    finally:
        timer.cancel()
