"""Fault injection for the chaos tests, off unless NMT_FAULT is set.

    NMT_FAULT="ckpt_pre_rename@40:kill,rung_post_rename:term"     comma-separated point[@step]:action; without a step: at any step
    NMT_FAULT_ONCE=DIR                                            each entry fires once over all processes (O_EXCL marker in DIR)

Actions: kill (SIGKILL to this process), term (SIGTERM), raise, enospc, sleepN (N seconds).
"""

from __future__ import annotations

import errno
import functools
import os
import re
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from orchestrator.errors import UserError

VARIABLE = "NMT_FAULT"
ONCE = "NMT_FAULT_ONCE"
ACTIONS = ("kill", "term", "raise", "enospc", "sleepN")

_ENTRY = re.compile(
    r"(?P<point>[a-z][a-z0-9_]*)(?:@(?P<step>\d{1,12}))?:(?P<action>kill|term|raise|enospc|sleep(?P<seconds>\d+(?:\.\d+)?))"
)


class InjectedFault(RuntimeError):
    """Raised by the action `raise`."""


@dataclass(frozen=True)
class Fault:
    """One entry of NMT_FAULT. `index` is its position in the list, which distinguishes equal entries."""

    index: int
    point: str
    step: int | None
    action: str
    seconds: float = 0.0

    def hits(self, step: int | None) -> bool:
        return self.step is None or self.step == step


@functools.lru_cache(maxsize=8)
def parse(text: str) -> tuple[Fault, ...]:
    """Parses an NMT_FAULT string. UserError with one line per malformed entry."""
    faults, wrong = [], []
    for index, entry in enumerate(text.split(",") if text.strip() else []):
        match = _ENTRY.fullmatch(entry.strip())
        if match is None:
            wrong.append(f"{VARIABLE}: {entry.strip()!r}: expected point[@step]:action with action one of {', '.join(ACTIONS)}")
            continue
        step = None if match["step"] is None else int(match["step"])
        action = "sleep" if match["seconds"] is not None else match["action"]
        faults.append(Fault(index, match["point"], step, action, float(match["seconds"] or 0)))
    if wrong:
        raise UserError(*wrong)
    return tuple(faults)


def active() -> tuple[Fault, ...]:
    """Returns the faults set in the environment, normally none. UserError for a malformed NMT_FAULT (call it once at start)."""
    text = os.environ.get(VARIABLE)
    return parse(text) if text else ()


def fault(point: str, step: int | None = None) -> None:
    """Marks a point where a fault can be injected. Does nothing unless NMT_FAULT names `point` (and `step`)."""
    if VARIABLE not in os.environ:
        return
    for entry in active():
        if entry.point == point and entry.hits(step) and _first_time(entry):
            _fire(entry, point, step)


def _first_time(entry: Fault) -> bool:
    """Creates the entry's marker under NMT_FAULT_ONCE. Returns False if a process created it before."""
    directory = os.environ.get(ONCE)
    if not directory:
        return True
    Path(directory).mkdir(parents=True, exist_ok=True)
    step = "" if entry.step is None else f"@{entry.step}"
    try:
        os.close(
            os.open(Path(directory) / f"{entry.index}-{entry.point}{step}-{entry.action}", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        )
    except FileExistsError:
        return False
    return True


def _fire(entry: Fault, point: str, step: int | None) -> None:
    where = point if step is None else f"{point}@{step}"
    if entry.action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif entry.action == "term":
        os.kill(os.getpid(), signal.SIGTERM)
    elif entry.action == "raise":
        raise InjectedFault(f"injected at {where}")
    elif entry.action == "enospc":
        raise OSError(errno.ENOSPC, f"{os.strerror(errno.ENOSPC)} (injected at {where})")
    elif entry.action == "sleep":
        time.sleep(entry.seconds)
