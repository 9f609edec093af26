"""The interface of this package: tracking of a sweep while it runs, and `reconcile`.

A driver starts one `BackgroundProjector`, a thread that reads the files of the runs, so that a slow or unreachable store causes only a
warning; it catches up from the files later. MLflow is imported by the thread.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from orchestrator.ledger.sweep_files import SweepFile, paths
from orchestrator.tracking.environment import reason, redact
from orchestrator.tracking.projector import Projector
from orchestrator.tracking.source import read_sweep


class BackgroundProjector:
    """A daemon thread that projects a sweep until `stop`. It never raises in the caller and never blocks it.

    interval: seconds between projections, more if one is slow. warn: gets one line per store outage, after two failures.
    """

    def __init__(
        self,
        results: Path,
        sweep_id: str,
        uri: str | None = None,
        *,
        mirrors: Sequence[Path] = (),
        interval: float = 2.0,
        warn: Callable[[str], None],
    ) -> None:
        self.projector, self.sweep_id, self.interval = Projector(results, uri, mirrors=mirrors), sweep_id, interval
        self._warn, self._stopping, self._failures, self._warned = warn, threading.Event(), 0, False
        self._thread = threading.Thread(target=self._run, name="mlflow-projection", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout: float = 30.0, *, progress: Callable[[int], None] | None = None) -> None:
        """Writes the remaining points and the final statuses. Warns if the store is behind.

        Waits until no run was written for `timeout` seconds. progress: called with the number of runs written.
        """
        self._stopping.set()
        written, since = self.projector.written, time.monotonic()
        while self._thread.is_alive() and time.monotonic() - since < timeout:
            self._thread.join(min(0.2, timeout))
            if self.projector.written != written:
                written, since = self.projector.written, time.monotonic()
                if progress is not None:
                    progress(written)
        if self._thread.is_alive() or self._failures > 0:
            self._warn("warning: MLflow does not have everything yet; `nmt-ablate reconcile` brings it up to date")

    def _run(self) -> None:
        wait = 0.0
        while not self._stopping.wait(wait):
            started = time.monotonic()
            done = self._try(live=True)
            busy = 10 * (time.monotonic() - started)  # at most a tenth of a core: scanning the files of many rows takes time
            wait = max(self.interval, min(busy, 60.0)) if done else min(max(2 * wait, self.interval), 60.0)
        self._try(live=False)

    def _try(self, *, live: bool) -> bool:
        try:
            self.projector.sync(self.sweep_id, live=live)
        except Exception as error:
            self._failures += 1
            if not self._warned and (not live or self._failures > 1):
                self._warned = True
                where = redact(self.projector.store.uri)
                self._warn(f"warning: MLflow at {where} cannot be written ({reason(error)}); the work continues")
            return False
        self._failures, self._warned = 0, False
        return True


def reconcile(
    results: Path, uri: str | None = None, *, mirrors: Sequence[Path] = (), progress: Callable[[int], None] | None = None
) -> tuple[Counter[str], list[str]]:
    """Projects every sweep. Returns the number of rows in each state, and a line for each unreadable file and each sweep
    that could not be written. Later sweeps are written all the same.

    Runs without a live process are no longer RUNNING afterwards. Raises the store's exception if no sweep could
    be written. progress: called with the number of runs written.
    """
    projector = Projector(results, uri, mirrors=mirrors, progress=progress)
    counts: Counter[str] = Counter()
    problems: list[str] = []
    failures: list[Exception] = []
    for path in paths(Path(results)):
        try:
            sweep = read_sweep(path)
        except (OSError, ValueError) as error:
            problems.append(str(error))
            continue
        try:
            counts += projector.project(sweep, live=SweepFile.of(results, sweep.id).driver is not None)
        except Exception as error:
            failures.append(error)
            problems.append(f"{sweep.id}: MLflow cannot be written: {reason(error)}")
    if failures and not counts:
        raise failures[0]
    return counts, problems
