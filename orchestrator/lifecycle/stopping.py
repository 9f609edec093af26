"""Stops the driver of a sweep with a SIGTERM on which it saves and exits.

Processes are identified by the locks they hold (`run_lock.owner`), never by name. A second SIGTERM would end a process at once (see
`interrupt`), so each acquisition of a lock gets only one: the file `NAME.lock.asked-EPOCH` beside the lock records it, and a repeated
call only waits.
"""

import os
import signal
import socket
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orchestrator import interrupt
from orchestrator.errors import UserError
from orchestrator.ledger.run_lock import owner
from orchestrator.ledger.sweep_files import SweepFile
from orchestrator.specs.positions import nearest, shown
from orchestrator.sweeps.status import recent_sweeps, sweep_status

POLL = 0.05
"""Seconds between two checks of whether a process has ended."""
FINAL = ("done", "diverged", "failed", "stopped")
"""Statuses of rows that have ended."""


@dataclass
class Stopped:
    """Result of `stop` for one sweep.

    action: stopped | stopping (signalled, not over yet) | not running. asked_before: an earlier call or Ctrl-C sent the signal.
    """

    name: str
    action: str
    pid: int | None = None
    host: str | None = None
    asked_before: bool = False
    rows: list[dict[str, Any]] = field(default_factory=list)

    def lines(self) -> list[str]:
        """A message for the terminal."""
        who = f"process {self.pid} on {self.host}"
        if self.action == "not running":
            return [f"{self.name}: is not running; nothing to stop"]
        if self.action == "stopping":
            return [f"{self.name}: {who} is asked to save and end, and is still at it; calling again waits on, --now ends it at once"]
        lines = [f"{self.name}: stopped ({who}); the same command resumes it"]
        for row in self.rows:
            again = "starts from the beginning" if row["checkpoint"] is None else f"resumes at step {row['checkpoint']}"
            over = row["status"] in (*FINAL, "trained")
            lines.append(f"  {row['id']} seed {row['seed']}: {row['status']}{'' if over else f', {again}'}")
        return lines


@dataclass(frozen=True)
class _Owned:
    """A running sweep: its lock, the record of its driver, and the unfinished rows."""

    name: str
    lock: Path
    record: dict[str, Any]
    rows: list[dict[str, Any]]

    @property
    def marker(self) -> Path:
        """Exists once the process was asked to end."""
        return self.lock.with_name(f"{self.lock.name}.asked-{self.record.get('epoch')}")

    @property
    def ended(self) -> bool:
        """Whether the process has ended (also before its parent has reaped it) or given the lock up."""
        record = owner(self.lock)
        try:
            zombie = Path(f"/proc/{self.record['pid']}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
        except (OSError, IndexError):
            zombie = False
        return record is None or record.get("epoch") != self.record.get("epoch") or zombie


def stop(results: Path, name: str | None, *, every: bool = False, now: bool = False, timeout: float = 60.0) -> list[Stopped]:
    """Stops the sweeps that run `name` and waits up to `timeout` seconds until they have ended. If nothing runs, that is no error.

    Args:
        name: a sweep, the address of a table or row, or `row:seed`. None: whatever runs.
        every: stop all of several running sweeps.
        now: send a second SIGTERM, which ends the process at once.

    Raises UserError for an unknown name, for several sweeps without `every`, and for a process of another machine or user.
    """
    sweeps = sweep_status(results, name=name, paths=recent_sweeps(results, 0)[0] if name is None else None)
    if name is not None and not sweeps:
        known = [sweep["sweep"] for sweep in sweep_status(results)]
        raise UserError(f"{shown(name)}: no such sweep, table or row in {results}; {nearest(name, known)}")
    found = [
        _Owned(sweep["sweep"], file.lock, record, [row for row in sweep["rows"] if row["status"] not in FINAL])
        for sweep in sweeps
        if (record := (file := SweepFile.of(results, sweep["sweep"])).driver) is not None
    ]
    if len(found) > 1 and not every:
        whose = f"{len(found)} sweeps{'' if name is None else f' of {shown(name)}'} run in {results}"
        raise UserError(f"{whose}; expected the name of one, or --all: {', '.join(one.name for one in found)}")
    for one in found:
        if one.record.get("host") != socket.gethostname() or not isinstance(one.record.get("pid"), int):
            raise UserError(f"{one.name}: its driver runs on {one.record.get('host')}; expected this machine: call stop there")
    if not found:
        return [] if name is None else [Stopped(name, "not running")]
    asked_before = {one.name: _ask(results, one, now) for one in found}
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline and not all(one.ended for one in found):
        time.sleep(POLL)
    return [_outcome(results, one, asked_before[one.name]) for one in found]


def _ask(results: Path, one: _Owned, now: bool) -> bool:
    """Sends SIGTERM, once per acquisition of the lock unless `now`. Returns True if it had been sent before."""
    before = interrupt.stop_file(results, one.name).exists()  # Ctrl-C in the terminal of a Ray sweep
    try:
        one.marker.touch(exist_ok=False)
    except FileExistsError:
        before = True
    if before and not now:
        return True
    try:
        descriptor = os.pidfd_open(one.record["pid"])
        try:
            if not one.ended:  # the descriptor still refers to the recorded process, even if its pid is reused
                signal.pidfd_send_signal(descriptor, signal.SIGTERM)
        finally:
            os.close(descriptor)
    except ProcessLookupError:
        pass
    except PermissionError:
        one.marker.unlink(missing_ok=True)
        raise UserError(f"{one.name}: process {one.record['pid']} belongs to another user") from None
    return before


def _outcome(results: Path, one: _Owned, asked_before: bool) -> Stopped:
    if not one.ended:
        return Stopped(one.name, "stopping", one.record["pid"], one.record["host"], asked_before)
    one.marker.unlink(missing_ok=True)
    paths = [SweepFile.of(results, one.name).path]
    after = {(row["id"], row["seed"]): row for sweep in sweep_status(results, paths=paths) for row in sweep["rows"]}
    rows = [after.get((row["id"], row["seed"]), row) for row in one.rows]
    rows = [row | {"checkpoint": None if row["status"] in FINAL else last_checkpoint(results / str(row["key"])[:16])} for row in rows]
    return Stopped(one.name, "stopped", one.record["pid"], one.record["host"], asked_before, rows)


def last_checkpoint(run: Path) -> int | None:
    """Step of the newest complete checkpoint of a run, from the folder names alone. None if there is none."""
    folders = (path.parent.name[5:] for path in (run / "ckpt").glob("step-*/manifest.json"))
    return max((int(step) for step in folders if step.isdecimal()), default=None)
