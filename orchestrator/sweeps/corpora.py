"""The corpora of tasks before any work starts: prepared, held against what is expected under their names, verified."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console

from orchestrator.specs.schema import DataSpec
from orchestrator.sweeps.task import Task


def prepare_all(tasks: Sequence[Task], data_dir: Path | None, cache_dir: Path) -> None:
    """Prepares what is not prepared; a line on stderr for a corpus that is not what the catalogue expects. UserError as `prepare`."""
    from orchestrator.data import usual
    from orchestrator.data.prepare import prepare
    from orchestrator.sweeps import metric_fit
    from orchestrator.sweeps.lengths import check_longest

    console, unusual = Console(file=sys.stderr), set[str]()
    for data, theirs in _by_data(tasks):
        with console.status(f"preparing {data.corpus}"):
            prepared = prepare(data, data_dir, cache_dir)
        for task in theirs:
            check_longest(task, prepared)
        metric_fit.warn(theirs, prepared)
        splits = {*usual.TRAINING, *(scoring.spec.test for task in theirs for scoring in task.scorings.values())}
        unusual |= set(usual.unusual(data.corpus, usual.of_prepared(prepared, splits)))
    for line in sorted(unusual):
        print(f"warning: {line}", file=sys.stderr, flush=True)


def verify(tasks: Sequence[Task], data_dir: Path | None, cache_dir: Path) -> None:
    """UserError for a prepared file that is not as it was written, before hours of training that could not be scored."""
    from orchestrator.data.prepare import prepare

    for data, _ in _by_data(tasks):
        prepare(data, data_dir, cache_dir).files.check()


def _by_data(tasks: Sequence[Task]) -> Iterator[tuple[DataSpec, list[Task]]]:
    """Each data section once, with its tasks."""
    specs = [(task, task.run_spec.data) for task in tasks]
    for data in {data.model_dump_json(): data for _, data in specs}.values():
        yield data, [task for task, its in specs if its == data]
