"""Stops the driver of a sweep, or the process of a single run, with a SIGTERM on which it saves and exits.

Processes are identified by the locks they hold (`run_lock.owner`), never by name. A second SIGTERM would end a process at once (see
`interrupt`), so each acquisition of a lock gets only one: the file `NAME.lock.asked-EPOCH` beside the lock records it, and a repeated
call only waits.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orchestrator import interrupt
from orchestrator.errors import UserError
from orchestrator.ledger.run_lock import owner
from orchestrator.ledger.sweep_files import SweepFile
from orchestrator.specs.positions import nearest, shown
from orchestrator.sweeps.status import is_of_row, recent_sweeps, sweep_status

POLL = 0.05
"""Seconds between two checks of whether a process has ended."""
FINAL = ("done", "diverged", "failed", "stopped")
"""Statuses of rows that have ended."""


@dataclass
class Stopped:
    """Result of `stop` for one sweep or run.

    action: stopped | stopping (signalled, not over yet) | not running. asked_before: an earlier call or Ctrl-C sent the signal.
    """

    name: str
    action: str
    pid: int | None = None
    host: str | None = None
    asked_before: bool = False
    rows: list[dict[str, Any]] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        return dict(vars(self))

    def lines(self) -> list[str]:
        """A message for the terminal."""
        if self.action == "not running":
            return [f"{self.name}: is not running; nothing to stop"]
        who = f"process {self.pid} on {self.host}"
        if self.action == "stopping":
            when = "was asked before" if self.asked_before else "is asked"
            return [f"{self.name}: {who} {when} to save and end, and is still at it; calling again waits on, --now ends it at once"]
        rows = [f"  {row['id']} seed {row['seed']}: {row['status']}{_goes_on(row)}" for row in self.rows]
        return [f"{self.name}: stopped ({who}); the same command resumes it", *rows]


@dataclass(frozen=True)
class _Owned:
    """A lock that a live process holds, and the unfinished rows that end with that process."""

    name: str
    lock: Path
    record: dict[str, Any]
    rows: list[dict[str, Any]]
    stop_file: Path | None = None


def stop(results: Path, name: str | None, *, every: bool = False, now: bool = False, timeout: float = 60.0) -> list[Stopped]:
    """Stops the process that runs `name` and waits up to `timeout` seconds until it has ended. If nothing runs, that is no error.

    Args:
        name: a sweep, the address of a table or row, `row:seed` or a train key. None: whatever runs.
        every: stop all of several running sweeps.
        now: send a second SIGTERM, which ends the process at once.

    Raises UserError for an unknown name, for several sweeps without `every`, and for a process of another machine or user.
    """
    sweeps = sweep_status(results, paths=recent_sweeps(results, 0)[0] if name is None else None)
    found = _live(results, sweeps) if name is None else _named(results, sweeps, name)
    if len(found) > 1 and not every:
        whose = f"{len(found)} sweeps{'' if name is None else f' of {shown(name)}'} run in {results}"
        raise UserError(f"{whose}; expected the name of one, or --all: {', '.join(one.name for one in found)}")
    for one in found:
        _check_here(one)
    if not found:
        return [] if name is None else [Stopped(name, "not running")]
    asked_before = {one.name: _ask(one, now) for one in found}
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline and not all(_ended(one) for one in found):
        time.sleep(POLL)
    return [_outcome(results, one, asked_before[one.name]) for one in found]


def _live(results: Path, sweeps: Iterable[dict[str, Any]]) -> list[_Owned]:
    found = []
    for sweep in sweeps:
        lock = SweepFile.of(results, sweep["sweep"]).lock
        record = owner(lock)
        if record is not None:
            stop_file = interrupt.stop_file(results, sweep["sweep"])
            found.append(_Owned(sweep["sweep"], lock, record, _unfinished(sweep["rows"]), stop_file))
    return found


def _named(results: Path, sweeps: list[dict[str, Any]], name: str) -> list[_Owned]:
    live = _live(results, sweeps)
    exact = {sweep["sweep"] for sweep in sweeps if name in (sweep["sweep"], sweep["name"])}
    if drivers := [one for one in live if one.name in exact]:
        return drivers
    rows = [row for sweep in sweeps for row in sweep["rows"] if _is_row(row, name)]
    run = results / name[:16] if re.fullmatch(r"[0-9a-f]{16,64}", name) else None
    if not exact and not rows and (run is None or not run.is_dir()):
        known = [one.name for one in live] or [sweep["sweep"] for sweep in sweeps]
        raise UserError(f"{shown(name)}: no such sweep, row or train key in {results}; {nearest(name, known)}")
    drivers = [one for one in live if any(_is_row(row, name) for row in one.rows)]
    if drivers:  # a signal to the row alone would let its sweep continue with other rows
        return drivers
    keys = dict.fromkeys(row["key"][:16] for row in rows if row["key"]) or ({} if exact else {name[:16]: None})
    owned = []
    for key in keys:
        lock = results / key / "lock"
        if (record := owner(lock)) is not None:
            owned.append(_Owned(key, lock, record, _unfinished(row for row in rows if row["key"][:16] == key)))
    return owned


def _is_row(row: dict[str, Any], name: str) -> bool:
    return is_of_row(name, row["id"], row["seed"]) or bool(row["key"] and len(name) >= 16 and row["key"].startswith(name))


def _unfinished(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for row in rows if row["status"] not in FINAL]


def _check_here(one: _Owned) -> None:
    if one.record.get("host") != socket.gethostname() or not isinstance(one.record.get("pid"), int):
        raise UserError(f"{one.name}: its driver runs on {one.record.get('host')}; expected this machine: call stop there")


def _ask(one: _Owned, now: bool) -> bool:
    """Sends SIGTERM, once per acquisition of the lock unless `now`. Returns True if it had been sent before."""
    marker = one.lock.with_name(f"{one.lock.name}.asked-{one.record.get('epoch')}")
    before = one.stop_file is not None and one.stop_file.exists()  # Ctrl-C in the terminal of a Ray sweep
    try:
        os.close(os.open(marker, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        before = True
    if before and not now:
        return True
    try:
        descriptor = os.pidfd_open(one.record["pid"])
        try:
            if not _ended(one):  # the descriptor still refers to the recorded process, even if its pid is reused
                signal.pidfd_send_signal(descriptor, signal.SIGTERM)
        finally:
            os.close(descriptor)
    except ProcessLookupError:
        pass
    except PermissionError:
        marker.unlink(missing_ok=True)
        raise UserError(f"{one.name}: process {one.record['pid']} belongs to another user") from None
    return before


def _ended(one: _Owned) -> bool:
    record = owner(one.lock)
    return record is None or record.get("epoch") != one.record.get("epoch") or _is_zombie(one.record["pid"])


def _is_zombie(pid: int) -> bool:
    """Returns True for a process that has ended but has not been reaped by its parent."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (OSError, IndexError):
        return False


def _outcome(results: Path, one: _Owned, asked_before: bool) -> Stopped:
    if not _ended(one):
        return Stopped(one.name, "stopping", one.record["pid"], one.record["host"], asked_before)
    with contextlib.suppress(OSError):
        one.lock.with_name(f"{one.lock.name}.asked-{one.record.get('epoch')}").unlink(missing_ok=True)
    paths = None if one.stop_file is None else [SweepFile.of(results, one.name).path]
    after = {(row["id"], row["seed"]): row for sweep in sweep_status(results, paths=paths) for row in sweep["rows"]}
    rows = [after.get((row["id"], row["seed"]), row) for row in one.rows]
    final_rows = [row | {"checkpoint": None if row["status"] in FINAL else last_checkpoint(results / str(row["key"])[:16])} for row in rows]
    return Stopped(one.name, "stopped", one.record["pid"], one.record["host"], asked_before, final_rows)


def last_checkpoint(run: Path) -> int | None:
    """Step of the newest complete checkpoint of a run, from the folder names alone. None if there is none."""
    steps = [
        int(path.name[5:]) for path in (run / "ckpt").glob("step-*") if path.name[5:].isdecimal() and (path / "manifest.json").exists()
    ]
    return max(steps, default=None)


def _goes_on(row: dict[str, Any]) -> str:
    if row["status"] in FINAL or row["status"] == "trained":
        return ""
    return ", starts from the beginning" if row["checkpoint"] is None else f", resumes at step {row['checkpoint']}"
