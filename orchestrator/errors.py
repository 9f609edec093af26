"""Errors that are meant for the user. The CLI turns each into its exit code; no other code prints a traceback."""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class CommandError(Exception):
    """An error that ends a command. `lines` are complete one-line messages without the `error: ` prefix. code: the exit code."""

    code = 1

    def __init__(self, *lines: str) -> None:
        super().__init__("\n".join(lines))
        self.lines = list(lines)


class UserError(CommandError):
    """Bad input."""

    code = 2


@contextlib.contextmanager
def collecting(problems: list[str], place: str = "") -> Iterator[None]:
    """Appends the lines of a UserError to `problems`, each behind `place`, and goes on after the block."""
    try:
        yield
    except UserError as error:
        problems += [place + line for line in error.lines]


def for_each(function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """The result for each item. Raises one UserError with the distinct lines of all items that fail."""
    found: list[Result] = []
    problems: list[str] = []
    for item in items:
        with collecting(problems):
            found.append(function(item))
    raise_all(problems)
    return found


def raise_all(problems: Iterable[str]) -> None:
    """Raises UserError with the distinct lines, if there are any."""
    if lines := dict.fromkeys(problems):
        raise UserError(*lines)


class Detached(CommandError):
    """The user detached from a job that continues elsewhere. `lines` say how to reattach."""

    code = 130


class LockedError(CommandError):
    """Another live process owns the run."""

    code = 3
    NAMED = "LockedError: "  # begins the reason of a run that failed by it


class FencedError(CommandError):
    """This process lost its lock to a newer owner and must not write any more."""

    code = 3


class RemoteError(CommandError):
    """The server of a bucket failed for a reason that may pass: unreachable, slow or refusing."""


class ClusterError(CommandError):
    """The Ray cluster did not start or does not answer, which may pass."""

    code = 5


class StopTraining(Exception):
    """Raised by a reporter to end this training now, whose run is then `stopped`. The message is the reason."""
