"""Creates tasks from rows and seeds, and groups tasks into jobs, parents before children."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from orchestrator.errors import UserError
from orchestrator.ledger import object_store
from orchestrator.specs.corpora import REQUIRED, load_entry
from orchestrator.specs.row import Row
from orchestrator.sweeps.options import ExecutionOptions
from orchestrator.sweeps.plan import Data, also_keys, keys_for
from orchestrator.sweeps.task import Scoring, Task


def make_tasks(rows: Sequence[Row], seeds: Sequence[int], options: ExecutionOptions) -> list[Task]:
    """Creates a task for each row and seed, parents before children. UserError with a line for each row whose data is absent.

    Paths are absolute, because workers have another working directory.
    """
    data = Data(options.data_dir)
    tasks: dict[str, Task] = {}
    missing: list[str] = []

    def add(row: Row) -> bool:
        """Adds the row and the rows that it starts from. Returns False if data is absent."""
        spec, parent = row.spec, row.parent
        assert spec is not None
        name = f"{row.id}:{spec.seed}"
        if name in tasks:
            return True
        has_parent = parent is None or add(parent)
        if data.manifest(spec.data) is None:
            where = "give --data-dir" if options.data_dir is None else f"not under {options.data_dir}"
            entry = load_entry(spec.data.corpus)
            hint = f"is absent ({where}); see `nmt-ablate data get {entry.name}`"
            known = entry.sources and entry.needs_data_dir
            missing.append(
                f"{row.id}: corpus {entry.name} {hint}" if known else f"{row.id}: {entry.missing_message(REQUIRED, options.data_dir)}"
            )
            return False
        if not has_parent:
            return False
        also = also_keys(row, data)
        tasks[name] = Task(
            id=row.id,
            seed=spec.seed,
            label=row.label or row.id,
            spec=spec,
            keys=keys_for(row, data),
            results=str(options.results.resolve()),
            parent_key=None if parent is None else keys_for(parent, data).train,
            data_dir=None if options.data_dir is None else str(options.data_dir.resolve()),
            cache_dir=str(options.cache_dir.resolve()),
            mirrors=[str(m.resolve()) for m in options.mirrors],
            workers=options.workers or row.workers,
            pinned=row.pinned,
            sweep=options.slug,
            also={other: Scoring(score, also[other]) for other, score in row.also.items()},
            failed_below=row.failed_below,
            remote=object_store.url(options.results),
        )
        return True

    for row in rows:
        for seed in seeds:
            if f"{row.id}:{seed}" not in options.dropped:
                add(row.at(seed))
    if missing:
        raise UserError(*dict.fromkeys(missing))
    return _with_rungs(tasks.values(), {f"{row.id}:{seed}" for row in rows for seed in seeds}, options.scheduler)


def _with_rungs(tasks: Iterable[Task], requested: set[str], scheduler: dict[str, Any]) -> list[Task]:
    """Assigns rungs to the requested rows. Rows from which others start are pinned, since a stopped run has no final weights."""
    tasks = list(tasks)
    rungs = list(scheduler.get("rungs", []))
    parents = {task.parent_key for task in tasks}
    bleu = bool(rungs) and scheduler.get("metric") == "valid/bleu"
    return [
        replace(t, rungs=rungs if t.name in requested else [], rung_bleu=bleu, pinned=t.pinned or t.train_key in parents) for t in tasks
    ]


def topological_levels(tasks: Iterable[Task]) -> list[list[Task]]:
    """Sorts tasks into levels: a task's level comes after that of its parent."""
    left = list(tasks)
    levels = []
    while left:
        untrained = {task.train_key for task in left}
        ready = [task for task in left if task.parent_key not in untrained]
        levels.append(ready)
        left = [task for task in left if task not in ready]
    return levels


def group_jobs(tasks: Sequence[Task]) -> list[list[Task]]:
    """Groups tasks with the same training into one job with the first task's number of workers, so that they train once."""
    jobs: dict[str, list[Task]] = {}
    for task in tasks:
        job = jobs.setdefault(task.train_key, [])
        job.append(task if not job else replace(task, workers=job[0].workers))
    return list(jobs.values())
