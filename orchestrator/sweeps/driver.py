"""Runs the rows of a sweep: creates tasks, finds unfinished work, runs it on an engine and records the outcome."""

import random
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import replace
from typing import Any

from rich.console import Console

from orchestrator.errors import LockedError, UserError
from orchestrator.files.canonical import digest
from orchestrator.files.folders import make
from orchestrator.ledger import component_sources, object_store
from orchestrator.ledger.results import Ledger
from orchestrator.ledger.run_lock import RunLock
from orchestrator.ledger.run_view import FINISHED, Outcome
from orchestrator.ledger.sweep_files import SweepFile, asked, with_claims
from orchestrator.safe_text import log, visible
from orchestrator.specs import check
from orchestrator.specs.positions import display
from orchestrator.specs.sweep import Scheduler
from orchestrator.specs.table import FAILED
from orchestrator.sweeps import preflight
from orchestrator.sweeps.asha import Asha
from orchestrator.sweeps.budget import budgeted, devices_of
from orchestrator.sweeps.live import LiveProgress, phase
from orchestrator.sweeps.options import ExecutionOptions
from orchestrator.sweeps.parts import check_initial
from orchestrator.sweeps.row import Result, needs_training, spec_is_damaged, stopped_record, view_of
from orchestrator.sweeps.task import Task, group_jobs, topological_levels
from orchestrator.tracking.sweeps import BackgroundProjector


class Engine:
    """Where the jobs of a sweep run."""

    def check(self, tasks: Sequence[Task]) -> None:
        """UserError for tasks that could never start on this engine."""

    def session(self, options: ExecutionOptions, workers: int) -> AbstractContextManager[None]:
        """Context in which `run` is called. workers: the most that a task has."""
        return nullcontext()

    def run(self, jobs: Sequence[Sequence[Task]], asha: Asha | None, options: ExecutionOptions) -> dict[str, str]:
        """Runs every job. Returns the failures: task name -> reason. Called in a `session`, for each level of a sweep, parents first."""
        raise NotImplementedError


def execute(tasks: list[Task], options: ExecutionOptions, engine: Engine) -> list[Result]:
    """Runs every task. Returns their results in order. Finished work is not repeated.

    UserError before any run: data, resources, a decoding precision or initial values are missing. LockedError: another process drives it.
    """
    engine.check(tasks)
    for folder, option in ((options.results, "--results"), (options.cache_dir, "--cache-dir")):
        make(folder, option)
    preflight.prepare_corpora(tasks, options.data_dir, options.cache_dir)
    lock = SweepFile.of(options.results, options.slug).lock
    lock.parent.mkdir(parents=True, exist_ok=True)
    with RunLock(lock):
        object_store.push(options.results)  # results that an earlier process could not publish
        return Sweep(tasks, options, engine).run()


class Sweep:
    """The tasks of one sweep and the ledger that holds their results."""

    def __init__(self, tasks: list[Task], options: ExecutionOptions, engine: Engine) -> None:
        self.tasks, self.options, self.engine = tasks, options, engine
        self.console = Console(file=sys.stderr)
        self.ledger = Ledger(options.results, list(options.mirrors))
        self.file = SweepFile.of(options.results, options.slug)
        if (other := self.file.record().get("name") or options.name) != options.name:
            raise UserError(f"{display(self.file.path)}: belongs to {other}, found {options.name}; expected another --results")
        self.scheduler = Scheduler(**options.scheduler)
        self.asha: Asha | None = None
        if (s := self.scheduler).kind == "asha":
            pinned, keys = {task.name for task in tasks if task.pinned}, {task.name: task.train_key for task in tasks}
            self.asha = Asha(s.rungs, s.reduction_factor, s.metric, pinned, self.file.asha, keys)

    def run(self) -> list[Result]:
        self._write_sweep()
        changed = {(task.id, task.seed): view_of(task, self.ledger).changed for task in self.tasks}
        log(*(f"warning: {line}" for line in component_sources.warnings(changed, self.options.arguments)))
        pending = self._pending()
        specs = list({task.id: task.spec for task in pending}.items())
        check_initial(specs)
        log(*check.warnings(specs))
        preflight.check_metrics(pending)
        preflight.check_precision(pending)
        preflight.verify_corpora(pending, self.options.data_dir, self.options.cache_dir)
        if not pending:
            self.console.print("nothing to do: 0 steps executed, every run has its result")
        with self._tracking():  # MLflow may lack results of runs without tracking, or of a call that was killed
            failures = self._run_pending(pending) if pending else {}
        return [self._result(task, failures) for task in self.tasks]

    def _run_pending(self, pending: list[Task]) -> dict[str, str]:
        """Runs parents before children, and records stopped and failed runs. Returns the failures."""
        failures: dict[str, str] = {}
        search = None if self.asha is None else self.asha.path
        with budgeted(self.options, pending):
            session = self.engine.session(self.options, max(task.workers for task in pending))
            with LiveProgress(pending, self.console, self.ledger, search, self.options.engine).following(), session:
                for level in topological_levels(pending):
                    blocked = self._blocked(level, failures)
                    failures |= blocked
                    jobs = group_jobs([task for task in self._start_order(level) if task.name not in blocked])
                    failures |= self.engine.run(jobs, self.asha, self.options) if jobs else {}
        object_store.pull(self.options.results)
        self._record_stopped()
        for task in self.tasks:  # for readers of the ledger; the next call retries them
            reason = failures.get(task.name)
            if reason is not None and LockedError.NAMED not in reason and view_of(task, self.ledger).trained not in FINISHED:
                self._write_train(task, {"status": "failed", "reason": reason, "steps": 0})
        return failures

    def _blocked(self, level: list[Task], failures: dict[str, str]) -> dict[str, str]:
        """Tasks whose parent has no weights to start from, with the reason."""
        blocked = {}
        for task in level:
            for parent in (p for p in self.tasks if p.train_key == task.parent_key):
                training = view_of(parent, self.ledger).training
                if parent.name in failures and needs_training(replace(parent, weights_needed=True), self.ledger):
                    blocked[task.name] = f"its parent {parent.name} failed: {failures[parent.name]}"
                elif training.get("status") in ("diverged", "failed"):
                    blocked[task.name] = f"its parent {parent.name} {training['status']}: {training.get('reason') or 'no reason known'}"
        return blocked

    def _pending(self) -> list[Task]:
        """Tasks with something left to do, among them finished parents whose weights are needed and not here (results in a mirror)."""
        pending: list[Task] = []
        needed: set[str | None] = set()
        stopped = {} if self.asha is None else self.asha.stopped()
        for task in reversed(self.tasks):  # children before parents
            is_needed, is_final = task.train_key in needed, self._is_final(task, stopped)
            if is_needed or not is_final:
                task = replace(task, weights_needed=is_needed)
                trains = needs_training(task, self.ledger)
                if trains:
                    needed.add(task.parent_key)
                if trains or not is_final:
                    pending.append(task)
        return pending[::-1]

    def _is_final(self, task: Task, stopped: dict[str, int]) -> bool:
        outcome = view_of(task, self.ledger).outcome
        if outcome.status == "done" and spec_is_damaged(task, self.ledger):
            return False
        return outcome.finished or (
            outcome.status == "stopped" and (task.name in stopped or task.until in self.ledger.read_rungs(task.train_key))
        )

    def _start_order(self, tasks: list[Task]) -> list[Task]:
        """Start order. ASHA decides by order of arrival, so pinned rows come first and the rest is shuffled with the recorded seed."""
        if self.asha is None:
            return tasks
        order: list[str] = []
        for level in topological_levels(self.tasks):  # finished tasks too: an interruption changes no order
            rest = [task.name for task in level if not task.pinned]
            random.Random(self.scheduler.shuffle_seed).shuffle(rest)
            order += [*(task.name for task in level if task.pinned), *rest]
        place = {name: number for number, name in enumerate(order)}
        return sorted(tasks, key=lambda task: place[task.name])

    def _record_stopped(self) -> None:
        """Records the runs that ASHA stopped, whose Ray workers have ended by now."""
        stopped = self.asha.stopped() if self.asha else {}
        for task in self.tasks:
            rung = stopped.get(task.name)
            if rung is None or view_of(task, self.ledger).steps >= rung:  # its record is of this rung or of later updates
                continue
            self._write_train(task, stopped_record(task, rung))

    def _write_train(self, task: Task, record: dict[str, Any]) -> None:
        task.run_dir.mkdir(parents=True, exist_ok=True)
        with suppress(LockedError), RunLock(task.run_dir / "lock").acquire(timeout=30) as lock:  # locked: another process trains it
            ledger = Ledger(self.options.results, lock=lock)
            if (ledger.read_train(task.train_key) or {}).get("status") in FINISHED:  # by another process
                return
            ledger.write_train(task.train_key, {"sweep": task.sweep} | record)

    def _result(self, task: Task, failures: dict[str, str]) -> Result:
        view = view_of(task, self.ledger)
        failed = not view.outcome.finished and view.status != "stopped" and task.name in failures
        outcome = Outcome(FAILED, failures[task.name]) if failed else view.outcome
        return Result(id=task.id, seed=task.seed, view=view, outcome=outcome, folder=object_store.display_path(task.run_dir))

    def _write_sweep(self) -> None:
        """Writes RESULTS/sweeps/SWEEP.json: the rows, their specs and keys. `earlier`: runs of earlier calls, which this one lacks."""
        existing = self.file.record()
        rows = [_sweep_row(task, self.options.engine) for task in self.tasks]
        now = {(row["id"], row["seed"]) for row in rows}
        record = {
            "sweep_id": self.options.slug,
            "name": self.options.name,
            "started": existing.get("started", time.time()),
            "scheduler": self.options.scheduler,
            "rows_key": digest([[row["id"], row["seed"], row["keys"]] for row in rows]),
            "rows": rows,
            "earlier": [row for place, row in asked(existing).items() if place not in now],
        }
        if claims := with_claims(existing.get("claims", []), self.options.claims, time.time()):
            record["claims"] = claims
        self.file.write(record | ({"looks": existing["looks"]} if "looks" in existing else {}))

    @contextmanager
    def _tracking(self) -> Iterator[None]:
        """Context: a thread projects this sweep to MLflow."""
        options, warn = self.options, lambda line: self.console.print(visible(line), highlight=False, markup=False)
        if options.no_tracking:
            yield
            return
        projector = BackgroundProjector(options.results, options.slug, options.tracking_uri, mirrors=options.mirrors, warn=warn)
        projector.start()
        try:
            yield
        finally:
            with phase("bringing MLflow up to date", self.console) as tell:
                projector.stop(progress=lambda runs: tell(f"bringing MLflow up to date: {runs} runs written"))


def _sweep_row(task: Task, engine: str) -> dict[str, Any]:
    paper, table, row = [*task.id.split("/", 2), "", ""][:3]
    also = {name: {"score": other.spec.model_dump(), "keys": other.keys.as_dict()} for name, other in task.also.items()}
    found = {"id": task.id, "label": task.label, "seed": task.seed, "keys": task.keys.as_dict(), "also": also}
    found |= {"spec": task.spec.model_dump(), "paper": paper, "table": table, "row": row, "devices": devices_of(task, engine)}
    return found | ({} if task.failed_below is None else {"failed_below": task.failed_below})
