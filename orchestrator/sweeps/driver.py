"""From resolved rows to results: tasks, what is left to do, an engine to do it, and what came of it."""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from rich.console import Console

from orchestrator.errors import UserError
from orchestrator.files import atomic
from orchestrator.files.canonical import digest
from orchestrator.files.documents import read_document
from orchestrator.files.folders import make
from orchestrator.ledger import mirrored, sources
from orchestrator.ledger.results import Ledger
from orchestrator.ledger.run_lock import RunLock
from orchestrator.safe_text import say, visible
from orchestrator.specs.precision import warned
from orchestrator.sweeps import corpora, metric_fit
from orchestrator.sweeps.again import begin_anew
from orchestrator.sweeps.cap import within_cap
from orchestrator.sweeps.options import ExecutionOptions
from orchestrator.sweeps.parameters import check_initial
from orchestrator.sweeps.task import Task
from orchestrator.sweeps.tasks import jobs_of, levels, make_tasks

if TYPE_CHECKING:
    from orchestrator.specs.row import Row
    from orchestrator.sweeps.asha import Asha


class Engine(Protocol):
    """Where the jobs of a sweep run."""

    def check(self, tasks: Sequence[Task]) -> None:
        """UserError where a task could never start here."""

    def run(self, jobs: Sequence[Sequence[Task]], asha: Asha | None, options: ExecutionOptions) -> dict[str, str]:
        """Run every job; returns why those failed that failed, by task name."""


def execute(rows: Sequence[Row], seeds: Sequence[int], options: ExecutionOptions, engine: Engine) -> list[dict[str, Any]]:
    """Bring every row and seed to its result; one public record each, in the order given (see `row.result_of`).

    UserError before anything starts where data, resources, the precision to decode in or initial values are missing;
    LockedError where another driver has this sweep.
    """
    tasks = make_tasks(rows, seeds, options)
    engine.check(tasks)
    for folder, option in ((options.results, "--results"), (options.export, "--export"), (options.cache_dir, "--cache-dir")):
        make(folder, option)
    _check_tracking(options)
    corpora.prepare_all(tasks, options.data_dir, options.cache_dir)
    (options.results / "sweeps").mkdir(parents=True, exist_ok=True)
    with RunLock(options.results / "sweeps" / f"{options.slug}.lock"):
        mirrored.push(options.results)  # what an earlier process trained and could not publish
        sweep = _Sweep(tasks, options, engine)
        if options.again:
            _check_precision(tasks)
            begin_anew(tasks, {f"{row.id}:{seed}" for row in rows for seed in seeds}, sweep.ledger)
        return sweep.run()


def _check_precision(tasks: Sequence[Task]) -> None:
    """UserError naming every row that this machine cannot decode as asked, while nothing has been trained yet."""
    asked = {task.id: task.run_spec.decode.precision for task in tasks if task.run_spec.decode.precision != "fp32"}
    if not asked or "RAY_ADDRESS" in os.environ:  # a cluster's machines decode
        return
    from models.inference import PrecisionError, check_precision
    from orchestrator.training.runtime import best_device

    problems = []
    for row, precision in asked.items():
        try:
            check_precision(precision, best_device())
        except PrecisionError as error:
            problems.append(f"{row}: decode.{error}")
    if problems:
        raise UserError(*problems)


def _check_tracking(options: ExecutionOptions) -> None:
    """UserError where a tracking server was named that cannot be written, unless it may wait: then a line on stderr."""
    if options.no_tracking or options.tracking_uri is None:
        return
    from orchestrator.tracking import sweeps

    try:
        sweeps.check(options.results, options.tracking_uri)
    except UserError as error:
        if not options.tracking_can_wait:
            raise UserError(f"{error}; --tracking-can-wait starts all the same, --no-tracking does without") from error
        say(f"warning: {error}; the work starts, and what it misses follows")


class _Sweep:
    def __init__(self, tasks: list[Task], options: ExecutionOptions, engine: Engine) -> None:
        self.tasks, self.options, self.engine = tasks, options, engine
        self.console = Console(file=sys.stderr)
        self.ledger = Ledger(options.results, list(options.mirrors))
        self.asha = self._asha()

    def run(self) -> list[dict[str, Any]]:
        self._write_sweep()
        sources.tell({(t.id, t.seed): self.ledger.read_train(t.train_key) for t in self.tasks}, self.ledger, self.options.arguments)
        stopped = {} if self.asha is None else self.asha.stopped()
        pending = [task for task in self.tasks if not self._final(task, stopped)]
        specs = [(name, task.run_spec) for name, task in {task.id: task for task in pending}.items()]
        check_initial(specs)
        for line in warned(specs):
            print(line, file=sys.stderr, flush=True)
        metric_fit.check(pending)
        _check_precision(pending)
        corpora.verify(pending, self.options.data_dir, self.options.cache_dir)
        failures: dict[str, str] = {}
        if not pending:
            self.console.print("nothing to do: 0 steps executed, every run has its result")
            if self.options.tracking_uri is not None:
                with self._tracking():  # the server may not have what was done without it
                    pass
        else:
            with mirrored.following(self.options.results), self._tracking():
                failures = within_cap(self.options, lambda: self._work(pending))
                mirrored.pull(self.options.results)
                self._mark_stopped()
                self._mark_failed(failures)
        results = [self._result(task, failures) for task in self.tasks]
        self._export()
        return results

    def _work(self, pending: list[Task]) -> dict[str, str]:
        from orchestrator.sweeps.progress_bars import LiveProgress

        failures: dict[str, str] = {}
        with LiveProgress(pending, self.console):
            for level in levels(pending):
                blocked = self._blocked(level, failures)
                failures |= blocked
                jobs = jobs_of([t for t in self._order(level) if t.name not in blocked])
                failures |= self.engine.run(jobs, self.asha, self.options) if jobs else {}
        return failures

    def _blocked(self, level: list[Task], failures: dict[str, str]) -> dict[str, str]:
        """Tasks whose parent has no weights to start from, with its name and what became of it."""
        found = {}
        for task in level:
            for parent in (p for p in self.tasks if p.train_key == task.parent_key):
                record = self.ledger.read_train(parent.train_key) or {}
                if parent.name in failures:
                    found[task.name] = f"its parent {parent.name} failed: {failures[parent.name]}"
                elif record.get("status") in ("diverged", "failed"):
                    found[task.name] = f"its parent {parent.name} {record['status']}: {record.get('reason') or 'no reason known'}"
        return found

    def _final(self, task: Task, stopped: dict[str, int]) -> bool:
        from orchestrator.sweeps.row import result_of

        result = result_of(task, self.ledger)
        status = result["status"]
        return result["failed_as_stated"] or status in ("done", "diverged") or (status == "stopped" and task.name in stopped)

    def _order(self, tasks: list[Task]) -> list[Task]:
        """Pinned rows first, the rest shuffled by the recorded seed where ASHA decides by order of arrival."""
        if self.asha is None:
            return tasks
        rest = [task for task in tasks if not task.pinned]
        random.Random(self.options.scheduler.get("shuffle_seed", 1)).shuffle(rest)
        return [task for task in tasks if task.pinned] + rest

    def _asha(self) -> Asha | None:
        from orchestrator.sweeps.asha import Asha

        s = self.options.scheduler
        if s["kind"] != "asha":
            return None
        pinned = {task.name for task in self.tasks if task.pinned}
        path = self.options.results / "sweeps" / f"{self.options.slug}.asha.json"
        return Asha(list(s["rungs"]), float(s.get("reduction_factor", 3)), s.get("mode", "min"), pinned, path)

    def _mark_stopped(self) -> None:
        """The scheduler ended these; their own processes could not write it."""
        for task, rung in ((t, r) for t in self.tasks for n, r in (self.asha.stopped() if self.asha else {}).items() if n == t.name):
            record = self.ledger.read_train(task.train_key)
            if record is not None and record["status"] in ("done", "diverged", "stopped"):
                continue
            metrics = self.ledger.read_rungs(task.train_key).get(rung, {})
            with RunLock(task.run_dir / "lock").acquire(timeout=30) as lock:
                Ledger(self.options.results, lock=lock).write_train(
                    task.train_key,
                    {
                        "key": task.train_key,
                        "sweep": task.sweep,
                        "status": "stopped",
                        "reason": f"stopped by ASHA at step {rung}",
                        "steps": rung,
                        "params": metrics.get("params"),
                        "tokens_per_second": metrics.get("train/tokens_per_second"),
                        "valid": {"nll": metrics.get("valid/nll")},
                    },
                )

    def _mark_failed(self, failures: dict[str, str]) -> None:
        """For whoever looks at the ledger; the next call tries again."""
        for task in self.tasks:
            record = self.ledger.read_train(task.train_key) if task.name in failures else {"status": "done"}
            if record is None or record["status"] not in ("done", "diverged"):
                task.run_dir.mkdir(parents=True, exist_ok=True)
                with RunLock(task.run_dir / "lock").acquire(timeout=30) as lock:
                    Ledger(self.options.results, lock=lock).write_train(
                        task.train_key,
                        {"key": task.train_key, "sweep": task.sweep, "status": "failed", "reason": failures[task.name], "steps": 0},
                    )

    def _result(self, task: Task, failures: dict[str, str]) -> dict[str, Any]:
        from orchestrator.sweeps.row import result_of

        result = result_of(task, self.ledger)
        if not result["failed_as_stated"] and result["status"] not in ("done", "stopped", "diverged") and task.name in failures:
            result |= {"status": "failed", "reason": failures[task.name]}
        return result

    def _write_sweep(self) -> None:
        path = self.options.results / "sweeps" / f"{self.options.slug}.json"
        known = read_document(path) or {}
        rows = []
        for task in self.tasks:
            parts = task.id.split("/")
            address = {"paper": parts[0], "table": parts[1] if len(parts) > 1 else "", "row": "/".join(parts[2:])}
            row = {"id": task.id, "label": task.label, "seed": task.seed, "keys": task.keys, "spec": task.spec, "also": task.also}
            rows.append(row | address | ({} if task.failed_below is None else {"failed_below": task.failed_below}))
        record = {
            "sweep_id": self.options.slug,
            "name": self.options.name,
            "started": known.get("started", time.time()),
            "scheduler": self.options.scheduler,
            "rows_key": digest([[row["id"], row["seed"], row["keys"]] for row in rows]),
            "rows": rows,
        }
        atomic.write_json(path, record, points="sweep")

    @contextmanager
    def _tracking(self) -> Iterator[None]:
        """MLflow follows the files of this sweep from a thread of its own."""
        if self.options.no_tracking:
            yield
            return
        from orchestrator.tracking.sweeps import BackgroundProjector

        projector = BackgroundProjector(
            self.options.results,
            self.options.slug,
            self.options.tracking_uri,
            mirrors=self.options.mirrors,
            warn=lambda line: self.console.print(visible(line), highlight=False, markup=False),
        )
        projector.start()
        try:
            yield
        finally:
            with self.console.status("bringing MLflow up to date") as status:
                projector.stop(progress=lambda runs: status.update(f"bringing MLflow up to date: {runs} runs written"))

    def _export(self) -> None:
        """Copy the JSON of finished runs where later runs look for it."""
        if self.options.export is not None:
            for task in self.tasks:
                if (task.run_dir / "train.json").exists():
                    self.ledger.export(task.train_key, self.options.export)
