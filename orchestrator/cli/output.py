"""Output of commands: JSON lines, tables of rich, the version, and nothing that libraries print."""

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

from orchestrator.safe_text import json_text, visible

if TYPE_CHECKING:
    from rich.console import Console


def print_json(value: Any) -> None:
    """One compact line of JSON on stdout."""
    sys.stdout.write(json_text(value, separators=(",", ":"), default=str) + "\n")
    sys.stdout.flush()


def echo(lines: Iterable[str]) -> None:
    """Lines on stdout, whose unprintable characters are escaped."""
    for line in lines:
        typer.echo(visible(line))


def console(*, stderr: bool = False) -> "Console":
    """A console that is 140 columns wide where the stream is no terminal."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr, highlight=False, width=None if stream.isatty() else 140)


def version() -> str:
    """Of the installed distribution."""
    from importlib import metadata  # 40 ms, which `--help` does not need

    try:
        return metadata.version("nmt-layer-fusion")
    except metadata.PackageNotFoundError:
        return "0 (not installed)"


@contextmanager
def stdout_to_stderr() -> Iterator[None]:
    """Redirects what libraries and their processes print on stdout to stderr."""
    sys.stdout.flush()
    saved = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(saved, 1)
        os.close(saved)
