"""Output of commands: JSON lines, rich tables and the version, without the output of libraries."""

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
    """Prints one compact line of JSON on stdout."""
    sys.stdout.write(json_text(value, separators=(",", ":"), default=str) + "\n")
    sys.stdout.flush()


def echo(lines: Iterable[str]) -> None:
    """Prints lines on stdout, with unprintable characters escaped."""
    for line in lines:
        typer.echo(visible(line))


def console(*, stderr: bool = False) -> "Console":
    """Returns a console. It is 140 columns wide if the stream is no terminal."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr, highlight=False, width=None if stream.isatty() else 140)


def version() -> str:
    """Returns the version of the installed distribution."""
    from importlib import metadata  # deferred: takes 40 ms, which `--help` does not need

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
