"""A row and seed to run, which workers receive as JSON; tasks made from rows and grouped into jobs, parents before children."""

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from orchestrator.errors import raise_all
from orchestrator.files.canonical import digest
from orchestrator.ledger import object_store
from orchestrator.ledger.bucket import attach
from orchestrator.ledger.keys import Keys
from orchestrator.specs.corpora import REQUIRED, load_entry
from orchestrator.specs.profiles import VALID
from orchestrator.specs.row import Row
from orchestrator.specs.schema import RunSpec, ScoreSpec
from orchestrator.specs.sweep import Scheduler
from orchestrator.sweeps.options import ExecutionOptions
from orchestrator.sweeps.plan import Data, also_keys, keys_for


@dataclass(frozen=True)
class Scoring:
    """A test set and a metric, with the keys of its decoding and score."""

    spec: ScoreSpec
    keys: Keys


@dataclass(frozen=True)
class Task:
    """A row and seed to run. Its keys depend only on `spec`, not on workers, paths, rungs, pinning or the sweep.

    also: the other scorings of the training, by name. parent_key: train key of the run whose weights initialise this one.
    data_key: of the prepared data. workers: at most. fewest_workers: with which the run goes on when nodes leave; None: `workers`.
    weights_needed: a run to be trained starts from this one's weights. until: the rung at which it saves and stops; None: its end.
    rung_bleu: translate the validation set at rungs. failed_below: see `ledger.run_view`. mirrors: read-only ledgers. remote: URL of the
    bucket whose scratch copy `results` is; each worker has its own copy.
    """

    id: str
    seed: int
    spec: RunSpec
    keys: Keys
    results: str
    label: str = ""
    parent_key: str | None = None
    data_dir: str | None = None
    data_key: str | None = None
    cache_dir: str = ".data-cache"
    mirrors: list[str] = field(default_factory=list)
    workers: int = 1
    fewest_workers: int | None = None
    pinned: bool = False
    rungs: list[int] = field(default_factory=list)
    rung_bleu: bool = False
    until: int | None = None
    sweep: str | None = None
    also: dict[str, Scoring] = field(default_factory=dict)
    failed_below: float | None = None
    remote: str | None = None
    weights_needed: bool = False

    @property
    def name(self) -> str:
        """`row:seed`."""
        return f"{self.id}:{self.seed}"

    @property
    def train_key(self) -> str:
        key = self.keys.train
        assert key is not None, f"{self.name} has no data"
        return key

    @property
    def scorings(self) -> dict[str, Scoring]:
        """Scorings by name, the row's own (named "") first."""
        return {"": Scoring(self.spec.score, self.keys), **self.also}

    @property
    def scoring_keys(self) -> dict[str, Keys]:
        return {name: scoring.keys for name, scoring in self.scorings.items()}

    @property
    def run_dir(self) -> Path:
        return Path(self.results) / self.train_key[:16]

    def to_json(self) -> dict[str, Any]:
        return dict(_serializer().dump_python(self, mode="json"))

    @classmethod
    def of(cls, data: dict[str, Any]) -> "Task":
        here = {} if data.get("remote") is None else {"results": str(attach.opened(data["remote"]).root)}
        return _serializer().validate_python(data | here)


@functools.cache
def _serializer() -> TypeAdapter[Task]:
    return TypeAdapter(Task)


def make_tasks(rows: Sequence[Row], seeds: Sequence[int], options: ExecutionOptions) -> list[Task]:
    """Creates a task for each row and seed, parents before children. UserError with a line for each absent corpus.

    Paths are absolute, because workers have another working directory. Rows from which others start are pinned, since a stopped run has no
    final weights. Only trainings of requested rows have rungs.
    """
    data = Data(options.data_dir)
    tasks: dict[str, Task] = {}
    missing: dict[str, str] = {}  # message -> the first row that needs the corpus

    def add(row: Row) -> None:
        """Adds the row and the rows that it starts from."""
        spec, parent = row.run_spec, row.parent
        name = f"{row.id}:{spec.seed}"
        if name in tasks:
            return
        if (manifest := data.manifest(spec.data)) is None:
            missing.setdefault(load_entry(spec.data.corpus).missing_message(REQUIRED, options.data_dir), row.id)
        if parent is not None:
            add(parent)
        if manifest is None:
            return
        data_dir = options.data_dir or (Path() if spec.data.subword.existing else None)  # its files may be relative to this folder
        keys, also = keys_for(row, data), also_keys(row, data)
        if options.train_only:
            keys, also = Keys(keys.train, None, None), {name: its for name, its in also.items() if row.also[name].test == VALID}
        tasks[name] = Task(
            id=row.id,
            seed=spec.seed,
            label=row.label or row.id,
            spec=spec,
            keys=keys,
            results=str(options.results.resolve()),
            parent_key=None if parent is None else keys_for(parent, data).train,
            data_dir=None if data_dir is None else str(data_dir.resolve()),
            data_key=digest(manifest),
            cache_dir=str(options.cache_dir.resolve()),
            mirrors=[str(m.resolve()) for m in options.mirrors],
            workers=options.workers or row.most_workers,
            fewest_workers=row.workers[0] if options.workers is None and isinstance(row.workers, list) else None,
            pinned=row.pinned,
            sweep=options.slug,
            also={other: Scoring(row.also[other], its) for other, its in also.items()},
            failed_below=row.failed_below,
            remote=object_store.url(options.results),
            until=options.until.get(row.id),
        )

    asked = {f"{row.id}:{seed}" for row in rows for seed in seeds}
    for row in rows:
        for seed in seeds:
            if f"{row.id}:{seed}" not in options.dropped:
                add(row.at(seed))
    raise_all(f"{row_id}: {message}" for message, row_id in missing.items())
    requested = {task.train_key for name, task in tasks.items() if name in asked}
    scheduler, parents = Scheduler(**options.scheduler), {task.parent_key for task in tasks.values()}
    rungs, bleu = scheduler.rungs, bool(scheduler.rungs) and scheduler.metric == "valid/bleu"
    return [
        replace(task, rungs=rungs if task.train_key in requested else [], rung_bleu=bleu, pinned=task.pinned or task.train_key in parents)
        for task in tasks.values()
    ]


def topological_levels(tasks: Iterable[Task]) -> list[list[Task]]:
    """Sorts tasks into levels: a task's level comes after that of its parent."""
    left = list(tasks)
    levels = []
    while left:
        untrained = {task.train_key for task in left}
        levels.append([task for task in left if task.parent_key not in untrained])
        left = [task for task in left if task.parent_key in untrained]
    return levels


def group_jobs(tasks: Sequence[Task]) -> list[list[Task]]:
    """Groups tasks with the same training into one job with the first task's number of workers, so that they train once."""
    jobs: dict[str, list[Task]] = {}
    for task in tasks:
        job = jobs.setdefault(task.train_key, [])
        job.append(task if not job else replace(task, workers=job[0].workers, fewest_workers=job[0].fewest_workers))
    return list(jobs.values())
