"""Fault injection for the chaos tests, off unless NMT_FAULT is set.

    NMT_FAULT="ckpt_pre_rename@40:kill,rung_post_rename:term"     comma-separated point[@step]:action; without a step: at any step
    NMT_FAULT_ONCE=DIR                                            each entry fires once over all processes (O_EXCL marker in DIR)

Actions: kill (SIGKILL to this process), term (SIGTERM), raise, enospc, sleepN (N seconds).
"""

import errno
import os
import signal
import time
from pathlib import Path


class InjectedFault(RuntimeError):
    """Raised by the action `raise`."""


def fault(point: str, step: int | None = None) -> None:
    """Marks a point where a fault can be injected. Does nothing unless NMT_FAULT names `point` (and `step`)."""
    text = os.environ.get("NMT_FAULT")
    for index, entry in enumerate(text.split(",") if text else []):
        place, _, action = entry.strip().partition(":")
        if place in (point, f"{point}@{step}") and _first_time(f"{index}-{place}-{action}"):
            _fire(action, point if step is None else f"{point}@{step}")


def _first_time(name: str) -> bool:
    """Creates the entry's marker under NMT_FAULT_ONCE. Returns False if a process created it before."""
    if folder := os.environ.get("NMT_FAULT_ONCE"):
        Path(folder).mkdir(parents=True, exist_ok=True)
        try:
            (Path(folder) / name).touch(exist_ok=False)
        except FileExistsError:
            return False
    return True


def _fire(action: str, where: str) -> None:
    if action in ("kill", "term"):
        os.kill(os.getpid(), signal.SIGKILL if action == "kill" else signal.SIGTERM)
    elif action == "raise":
        raise InjectedFault(f"injected at {where}")
    elif action == "enospc":
        raise OSError(errno.ENOSPC, f"{os.strerror(errno.ENOSPC)} (injected at {where})")
    else:
        time.sleep(float(action.removeprefix("sleep")))
