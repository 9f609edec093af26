"""Tells that a phase of a command lasts: a spinner on a terminal, elsewhere a line when it starts and one every half minute."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console

from orchestrator.safe_text import log, visible
from orchestrator.sweeps.forecast import duration

SECONDS = 29.0
"""Between two lines of a phase."""
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
    over, texts, started = threading.Event(), [what], time.monotonic()

    def tell() -> None:
        wait = QUIET
        while not over.wait(wait):
            log(texts[-1] + ("" if wait == QUIET else f": since {duration(time.monotonic() - started)}"))
            wait = SECONDS

    thread = threading.Thread(target=tell, name="phase", daemon=True)
    thread.start()
    try:
        yield texts.append
    finally:
        over.set()
        thread.join()
