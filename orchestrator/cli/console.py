"""rich's console as commands use it."""

from __future__ import annotations

import sys

from rich.console import Console


def console(*, stderr: bool = False) -> Console:
    """A console that is 140 columns wide where the stream is no terminal."""
    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr, highlight=False, width=None if stream.isatty() else 140)
