"""Rows and seeds become tasks; tasks become jobs in an order that respects parents."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from orchestrator.errors import UserError
from orchestrator.ledger import mirrored
from orchestrator.ledger.keys import keys_of
from orchestrator.sweeps.options import ExecutionOptions
from orchestrator.sweeps.task import Task

if TYPE_CHECKING:
    from orchestrator.specs.row import Row


def make_tasks(rows: Sequence[Row], seeds: Sequence[int], options: ExecutionOptions) -> list[Task]:
    """A task for each row and seed, parents before children. UserError names every row whose data is absent.

    Paths are absolute: workers have a working directory of their own.
    """
    from orchestrator.data.prepare import manifest

    manifests: dict[str, Any] = {}
    tasks: dict[str, Task] = {}
    missing: list[str] = []

    def add(row: Row, seed: int) -> Task | None:
        parent = None if row.parent is None else add(row.parent, seed)
        assert row.spec is not None
        spec = row.spec.model_copy(update={"seed": seed})
        name = f"{row.id}:{seed}"
        if name in tasks:
            return tasks[name]
        data = spec.data.model_dump_json()
        if data not in manifests:
            manifests[data] = manifest(spec.data, options.data_dir)
        if manifests[data] is None:
            where = "give --data-dir" if options.data_dir is None else f"not under {options.data_dir}"
            missing.append(f"{row.id}: corpus {spec.data.corpus} is absent ({where}); see `nmt-ablate data get {spec.data.corpus}`")
            return None
        if row.parent is not None and parent is None:
            return None
        parent_key = None if parent is None else parent.train_key
        keys = keys_of(spec, manifests[data], parent_key)
        also = {
            name: (score, keys_of(spec.model_copy(update={"score": score}), manifests[data], parent_key))
            for name, score in row.also.items()
        }
        tasks[name] = Task(
            id=row.id,
            seed=seed,
            label=row.label or row.id,
            spec=spec.model_dump(),
            keys=keys.as_dict(),
            results=str(options.results.resolve()),
            parent_key=parent_key,
            data_dir=None if options.data_dir is None else str(options.data_dir.resolve()),
            cache_dir=str(options.cache_dir.resolve()),
            mirrors=[str(m.resolve()) for m in options.mirrors],
            workers=options.workers or row.workers,
            pinned=row.pinned,
            sweep=options.slug,
            also={name: {"score": score.model_dump(), "keys": found.as_dict()} for name, (score, found) in also.items()},
            failed_below=row.failed_below,
            remote=mirrored.url(options.results),
        )
        return tasks[name]

    for row in rows:
        for seed in seeds:
            add(row, seed)
    if missing:
        raise UserError(*dict.fromkeys(missing))
    return _with_rungs(tasks.values(), {f"{row.id}:{seed}" for row in rows for seed in seeds}, options.scheduler)


def _with_rungs(tasks: Iterable[Task], wanted: set[str], scheduler: dict[str, Any]) -> list[Task]:
    """Rows that were asked for report at rungs. Those that others start from are pinned: a row cut short has no weights to start from."""
    tasks = list(tasks)
    rungs = list(scheduler.get("rungs", [])) if scheduler["kind"] == "asha" else []
    parents = {task.parent_key for task in tasks}
    bleu = bool(rungs) and scheduler.get("metric") == "valid/bleu"
    return [replace(t, rungs=rungs if t.name in wanted else [], rung_bleu=bleu, pinned=t.pinned or t.train_key in parents) for t in tasks]


def levels(tasks: Iterable[Task]) -> list[list[Task]]:
    """Parents before children: a task waits for the level that trains its parent."""
    left = list(tasks)
    levels = []
    while left:
        open_keys = {task.train_key for task in left}
        ready = [task for task in left if task.parent_key not in open_keys]
        levels.append(ready)
        left = [task for task in left if task not in ready]
    return levels


def jobs_of(tasks: Sequence[Task]) -> list[list[Task]]:
    """Tasks that share one training stand together, so that it happens once; they run on the workers of the first."""
    jobs: dict[str, list[Task]] = {}
    for task in tasks:
        job = jobs.setdefault(task.train_key, [])
        job.append(task if not job else replace(task, workers=job[0].workers))
    return list(jobs.values())
