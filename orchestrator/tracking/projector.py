"""MLflow as a projection of the ledger: a parent run per sweep, a child run per row and seed.

Everything here is a function of files: written again, it changes nothing; deleted, `reconcile` rebuilds it. Runs are found by their tags
(`nmt.sweep`, `nmt.run`, `nmt.ledger`), metrics are logged beyond the last logged step. The training loop never comes here:
it appends to files of its own, which are the queue of what a store that is down has yet to get.

    state      done      stopped (ASHA)   diverged, failed   running   interrupted
    MLflow     FINISHED  KILLED           FAILED             RUNNING   KILLED
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.ledger.run_lock import owner
from orchestrator.tracking.history import Point
from orchestrator.tracking.ledger import file_lock
from orchestrator.tracking.source import FINAL, Result, Row, Sweep, read_result, read_sweep, run_directory, stamp
from orchestrator.tracking.store import Child, Store

if TYPE_CHECKING:
    from mlflow.entities import Run

STATUS = {
    "done": "FINISHED",
    "stopped": "KILLED",
    "diverged": "FAILED",
    "failed": "FAILED",
    "running": "RUNNING",
    "interrupted": "KILLED",
    "superseded": "KILLED",
}

Progress = Callable[[int], None]

AT_ONCE = 4
"""Rows of one sweep that are written to a server at a time."""


@dataclass
class _Known:
    """What this process knows of a sweep's runs. `runs`: as found, not yet looked into; `children`: written by us. Both by `Row.key`.

    `fresh`: found within this very call, so that no other writer of the ledger can have made more since.
    """

    parent: Child
    runs: dict[str, Run] = field(default_factory=dict)
    children: dict[str, Child] = field(default_factory=dict)
    marks: dict[str, Any] = field(default_factory=dict)
    states: dict[str, tuple[str, int]] = field(default_factory=dict)
    fresh: bool = True


class Projector:
    """Writes sweeps of `results` to the store at `uri` (default: `results/mlflow.db`). Not for several threads at once.

    `mirrors`: read-only ledgers that are looked in too. Methods raise what the store raises; the next call starts from what is in it.
    `written`: runs written so far, for whoever waits.
    """

    def __init__(self, results: Path, uri: str | None = None, *, mirrors: Sequence[Path] = (), progress: Progress | None = None) -> None:
        self.results, self.roots = Path(results), [Path(results), *map(Path, mirrors)]
        self.store = Store(self.results, uri)
        self.written, self._progress = 0, progress
        self._known: dict[str, _Known] = {}

    def start_sweep(self, sweep_id: str) -> str:
        """Makes (or finds) the sweep's parent run, RUNNING; returns its run id."""
        self.project(read_sweep(self._file(sweep_id)), live=True, rows=False)
        return self._known[sweep_id].parent.run_id

    def sync(self, sweep_id: str) -> Counter[str]:
        """Brings the store up to the files, for a sweep that is under way; returns the number of rows in each state."""
        return self.project(read_sweep(self._file(sweep_id)), live=True)

    def finish_sweep(self, sweep_id: str) -> Counter[str]:
        """The same for a sweep that nobody runs any more: rows and parent get their last status.

        Of a server the runs are looked up anew: a request that was repeated after its answer got lost may have made a run twice.
        """
        if self.store.server:
            self._known.pop(sweep_id, None)
        return self.project(read_sweep(self._file(sweep_id)), live=False)

    def _file(self, sweep_id: str) -> Path:
        return self.results / "sweeps" / f"{sweep_id}.json"

    def project(self, sweep: Sweep, *, live: bool, rows: bool = True) -> Counter[str]:
        """`live`: somebody runs the sweep. Rows without a final state are RUNNING if it is, or if a live process holds the run's lock."""
        try:
            with file_lock(self.store.lock(sweep.id)):
                known = self._known.get(sweep.id) or self._look_up(sweep)
                states = list(self._rows(sweep, known, live=live)) if rows else []
                self._parent(sweep, known, states, live=live)
                known.fresh = False
                return Counter(states)
        except BaseException:
            self._known.pop(sweep.id, None)
            self.store.forget()
            raise

    # ------------------------------------------------------------ the parent

    def _look_up(self, sweep: Sweep) -> _Known:
        """Finds the sweep's runs; makes the parent; removes doubles; marks runs of rows that the sweep no longer has."""
        found = self.store.search(sweep.id)
        parents = [run for run in found if run.data.tags.get("nmt.kind") == "sweep"]
        if parents:
            parent = self.store.adopt(parents[0])
        else:
            parent = self.store.create(sweep.name, {"nmt.kind": "sweep", "nmt.sweep": sweep.id, "nmt.status": "running"}, sweep.started)
        known = self._known[sweep.id] = _Known(parent)
        for run in parents[1:]:
            self.store.delete(run.info.run_id)
        wanted = {row.key for row in sweep.rows}
        for run in found:
            key = run.data.tags.get("nmt.run")
            if key is None:
                continue
            if key in known.runs:
                self.store.delete(run.info.run_id)
            elif key in wanted:
                known.runs[key] = run
            elif run.data.tags.get("nmt.kind") != "superseded":
                stale = self.store.adopt(run)
                self.store.write(stale, tags={"nmt.kind": "superseded", "nmt.status": "superseded"})
                if run.info.status == "RUNNING":
                    self.store.write_status(stale, "KILLED")
        return known

    def _parent(self, sweep: Sweep, known: _Known, states: list[str], *, live: bool) -> None:
        counts = Counter(states)
        open_rows = sum(counts[state] for state in ("pending", "running", "interrupted"))
        state = "running" if live or counts["running"] else "interrupted" if open_rows else "done"
        tags = {f"nmt.{name}": str(counts[name]) for name in ("done", "stopped", "diverged", "failed")}
        self.store.write(known.parent, tags={"nmt.status": state, "nmt.rows": str(len(sweep.rows))} | (tags if states else {}))
        if known.parent.status != STATUS[state]:
            self.store.write_status(known.parent, STATUS[state], max((end for _, end in known.states.values()), default=sweep.started))

    # ------------------------------------------------------------ the children

    def _rows(self, sweep: Sweep, known: _Known, *, live: bool) -> Iterator[str]:
        """A server takes several requests at once, and most of a request is waiting."""
        if not self.store.server:
            yield from (self._row(sweep, known, row, live=live) for row in sweep.rows)
            return
        assert self.store.client  # opened once
        with ThreadPoolExecutor(AT_ONCE, "mlflow-projection") as pool:
            try:
                yield from pool.map(lambda row: self._row(sweep, known, row, live=live), sweep.rows)
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise

    def _row(self, sweep: Sweep, known: _Known, row: Row, *, live: bool) -> str:
        if row.train is None:
            return "needs-data"
        mark = stamp(self.roots, row)
        if mark is None:
            return "pending"
        held = live or self._held(row.train)
        if known.marks.get(row.key) != (mark, held):
            result = read_result(self.roots, row, sweep)
            if result is None:
                return "pending"
            state = result.state if result.state in FINAL or held else "interrupted"
            self._write(sweep, known, row, result, state)
            known.states[row.key] = (state, result.end or result.start)
            known.marks[row.key] = (mark, held)
        return known.states[row.key][0]

    def _held(self, train_key: str) -> bool:
        run = run_directory(self.roots, train_key)
        return run is not None and owner(run / "lock") is not None

    def _write(self, sweep: Sweep, known: _Known, row: Row, result: Result, state: str) -> None:
        """The run's identity first; `nmt.projected` with the last request, then the status: what is cut off is written by the next call."""
        status = STATUS.get(state, "RUNNING")
        projected = f"{state}:{result.content}"
        run = known.runs.get(row.key)
        if (
            run is not None
            and row.key not in known.children
            and run.info.status == status
            and run.data.tags.get("nmt.projected") == projected
        ):
            return
        child = self._child(sweep, known, row, result)
        store = self.store
        points = list(result.points)
        if status == "RUNNING":
            store.write_status(child, status)
        else:
            store.write_artifacts(child, result.artifacts)
        if state in FINAL:
            points += [_final(name, value, result) for name, value in result.metrics.items()]
        signature = {"signature": result.tags["signature"]} if "signature" in result.tags else {}
        extra = {"nonfinite": ", ".join(result.nonfinite)} if result.nonfinite else {}
        about = {f"nmt.{name}": value for name, value in (result.tags | extra).items()}
        tags = self._tags(sweep, known, row) | about | {"nmt.status": state, "nmt.projected": projected}
        store.write(child, points=points, spec=row.spec | signature, tags=tags)
        if status != "RUNNING":
            store.write_status(child, status, result.end or max([point.time for point in result.points[-1:]] + [result.start]))
        self.written += 1
        if self._progress is not None:
            self._progress(self.written)

    def _child(self, sweep: Sweep, known: _Known, row: Row, result: Result) -> Child:
        if row.key in known.children:
            return known.children[row.key]
        if row.key not in known.runs and not known.fresh and (made := self.store.search(sweep.id, row.key)):
            known.runs[row.key] = made[0]  # another process made it since
        if row.key in known.runs:
            child = self.store.adopt(known.runs[row.key])
        else:
            child = self.store.create(f"{row.id}:{row.seed}", self._tags(sweep, known, row), result.start)
        known.children[row.key] = child
        return child

    def _tags(self, sweep: Sweep, known: _Known, row: Row) -> dict[str, str]:
        tags = {"mlflow.parentRunId": known.parent.run_id, "nmt.kind": "run", "nmt.sweep": sweep.id, "nmt.run": row.key}
        tags |= {
            "nmt.row": row.id,
            "nmt.seed": str(row.seed),
            "nmt.paper": row.paper,
            "nmt.table": row.table,
            "nmt.label": row.label,
            "mlflow.note.content": row.label,
        }
        tags |= {"nmt.train_key": row.train or "", "nmt.decode_key": row.decode or "", "nmt.score_key": row.score or ""}
        return {name: value for name, value in tags.items() if value}


def _final(name: str, value: float, result: Result) -> Point:
    return Point(name, value, result.end or result.start, result.steps)
