"""Tracking of a sweep while it runs, and `reconcile`: the one module of tracking that drivers and the CLI call.

A driver runs one `BackgroundProjector`, which reads what the runs write to their own files, so that a slow or dead store costs a warning
and nothing else. Importing this is cheap; MLflow is imported by the thread.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from orchestrator import tracking_analysis
from orchestrator.errors import LockedError, UserError
from orchestrator.lock import RunLock, owner
from orchestrator.tracking_projector import Projector
from orchestrator.tracking_source import read_sweep, sweep_files
from orchestrator.tracking_store import redact

__all__ = ["BackgroundProjector", "Projector", "log_analysis", "reconcile", "sweep_lock"]


class BackgroundProjector:
    """One daemon thread that projects a sweep until `stop`. Nothing it does can raise in, or block, the caller.

    `interval`: seconds between looks at the files. `warn`: takes one line (default: stderr); called once per outage of the store.
    """

    def __init__(
        self,
        results: Path,
        sweep_id: str,
        uri: str | None = None,
        *,
        mirrors: Sequence[Path] = (),
        interval: float = 2.0,
        warn: Callable[[str], None] | None = None,
    ) -> None:
        self.projector, self.sweep_id, self.interval = Projector(results, uri, mirrors=mirrors), sweep_id, interval
        self._warn = warn or _say
        self._stopping, self._down = threading.Event(), False
        self._lock = RunLock(sweep_lock(results, sweep_id))
        self._thread = threading.Thread(target=self._run, name="mlflow-projection", daemon=True)

    def start(self) -> None:
        """Also marks the sweep as alive, for a `reconcile` that runs meanwhile."""
        with contextlib.suppress(LockedError, UserError, OSError):  # another driver may track the sweep too: they take turns
            self._lock.acquire()
        self._thread.start()

    def stop(self, timeout: float = 30.0) -> bool:
        """Writes what is left and the last statuses; waits `timeout` seconds. False: the store is behind (said in a warning)."""
        self._stopping.set()
        self._thread.join(timeout)
        late = self._thread.is_alive()
        if late or self._down:
            self._warn("warning: MLflow does not have everything yet; `nmt-ablate reconcile` brings it up to date")
        self._lock.release()
        return not (late or self._down)

    def _run(self) -> None:
        wait = 0.0
        while not self._stopping.wait(wait):
            wait = self.interval if self._try(self.projector.sync) else min(max(2 * wait, self.interval), 60.0)
        self._try(self.projector.finish_sweep)

    def _try(self, project: Callable[[str], Any]) -> bool:
        try:
            project(self.sweep_id)
        except Exception as error:
            if not self._down:
                reason = next(iter(redact(str(error)).strip().splitlines()), "")
                where = redact(self.projector.store.uri)
                self._warn(f"warning: MLflow at {where} cannot be written ({type(error).__name__}: {reason}); the work goes on")
            self._down = True
        else:
            self._down = False
        return not self._down


def reconcile(results: Path, uri: str | None = None, *, mirrors: Sequence[Path] = ()) -> tuple[Counter[str], list[str]]:
    """Projects every sweep and analysis, from nothing if need be -> rows in each state, and a line for each file that cannot be read.

    Runs that nobody is running any more are no longer RUNNING afterwards. Analyses are not counted.
    """
    projector = Projector(results, uri, mirrors=mirrors)
    counts: Counter[str] = Counter()
    problems: list[str] = []
    for path in sweep_files(Path(results)):
        try:
            sweep = read_sweep(path)
        except (OSError, ValueError) as error:
            problems.append(str(error))
            continue
        counts += projector.project(sweep, live=owner(sweep_lock(results, sweep.id)) is not None)
    return counts, problems + tracking_analysis.project(results, uri)[1]


def log_analysis(
    results: Path, name: str, kind: str, files: Sequence[Path], params: Mapping[str, Any], tags: Mapping[str, str], uri: str | None = None
) -> str | None:
    """Logs the files of an analysis to MLflow -> None, or a line saying why the store does not have them (`reconcile` brings them)."""
    note = tracking_analysis.record(results, name, kind, files, params, tags)
    try:
        tracking_analysis.project(results, uri, note)
    except Exception as error:
        reason = next(iter(redact(str(error)).strip().splitlines()), "")
        return f"warning: MLflow cannot be written ({type(error).__name__}: {reason}); `nmt-ablate reconcile` brings it up to date"
    return None


def sweep_lock(results: Path, sweep_id: str) -> Path:
    """Held by the driver that tracks the sweep."""
    return Path(results) / ".tracking" / f"{sweep_id}.lock"


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
