"""Errors with a meaning for the user. The CLI turns each into its exit code; nothing else prints a traceback."""

from __future__ import annotations


class UserError(Exception):
    """Bad input. `lines` are complete messages, one a line, without the `error: ` prefix. Exit code 2."""

    def __init__(self, *lines: str) -> None:
        super().__init__("\n".join(lines))
        self.lines = list(lines)


class LockedError(Exception):
    """Another live process owns the run. Exit code 3."""


class Detached(Exception):
    """The user left a job that goes on elsewhere. `lines` say how to come back. Exit code 130."""

    def __init__(self, *lines: str) -> None:
        super().__init__("\n".join(lines))
        self.lines = list(lines)


class FencedError(Exception):
    """This process lost its lock to a newer owner and must write nothing more."""


class RemoteError(Exception):
    """The server of a bucket did not do it, for a reason that may pass: away, slow, refusing. One line. Exit code 1."""


class StopTraining(Exception):
    """Raised by a reporter: end this training now. `status` becomes the run's status (`stopped`)."""

    def __init__(self, status: str, reason: str) -> None:
        super().__init__(reason)
        self.status, self.reason = status, reason
