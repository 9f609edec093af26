"""What the process lacks from its start or at its end: standard streams that are closed, limits of the shell that are too low."""

from __future__ import annotations

import errno
import os
import resource
import sys

_MEMORY = ("failed to map segment", "allocate memory", "can't start new thread", "bad_alloc", "not enough memory")


def open_streams() -> None:
    """Opens closed standard streams on /dev/null, before a file takes their place."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # gets the least free number
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "w" if number else "r", encoding="utf-8", closefd=False))  # noqa: SIM115


def exceeded(error: BaseException) -> str | None:
    """The message for an error that a limit of this process or machine caused; None for any other."""
    code, text = getattr(error, "errno", None), str(error)
    if code in (errno.EMFILE, errno.ENFILE):
        return f"too many open files; this process may open {_limit(resource.RLIMIT_NOFILE)} (ulimit -n); expected a higher limit"
    if isinstance(error, MemoryError) or code == errno.ENOMEM or any(words in text for words in _MEMORY):
        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        allowed = "" if limit == resource.RLIM_INFINITY else f"; this process may map {limit / 1e9:.1f} GB (ulimit -v)"
        return f"out of memory{allowed}; expected more, or a smaller batch"
    return None


def _limit(kind: int) -> str:
    return f"{resource.getrlimit(kind)[0]:,}"
