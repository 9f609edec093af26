"""A search whose trainings are functions of the row: it needs no model and no corpus."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from orchestrator.ledger.results import Ledger
from orchestrator.ledger.run_view import Outcome, RunView
from orchestrator.specs.positions import Position
from orchestrator.specs.row import Row
from orchestrator.specs.rows import resolve
from orchestrator.specs.tune import TuneSpec
from orchestrator.sweeps.options import ExecutionOptions
from orchestrator.sweeps.plan import Data, keys_for
from orchestrator.sweeps.row import Result
from orchestrator.tuning.search import Search, arms_of
from orchestrator.tuning.trials import Tuning

RATES = {"optim.schedule.lr": {"factor": {"loguniform": [0.25, 4.0]}}}
ROWS = """\
  base: {optim: {schedule: {kind: inverse-sqrt, warmup: 2, lr: 0.001}}}
  low: {optim: {schedule: {kind: inverse-sqrt, warmup: 2, lr: 0.0004}}, model: {d_ff: 40}}
"""


def tuning(**section) -> Tuning:
    return Tuning(TuneSpec.model_validate({"space": RATES} | section), lambda path: Position("demo.yaml", path))


class Fake:
    """Stands for `execute`: runs of 4 updates, validated at each; `calls` counts what each call asked for."""

    def __init__(self, ledger: Ledger, loss) -> None:
        self.ledger, self.loss, self.calls = ledger, loss, list[dict[str, int]]()

    def __call__(self, rows: Sequence[Row], seeds: Sequence[int], options: ExecutionOptions) -> list[Result]:
        self.calls.append(dict(options.until))
        rungs = (options.sweep or {})["scheduler"]["rungs"]
        return [self.run(row.at(seed), seed, options.until.get(row.id), rungs) for row in rows for seed in seeds]

    def run(self, row: Row, seed: int, until: int | None, rungs: Sequence[int]) -> Result:
        keys = keys_for(row, Data(None))
        key = keys.train
        status, reports = "done", []
        for step in range(1, 5):
            value = self.loss(row.spec, seed, step)
            if value is None:
                status = "diverged"
                break
            reports.append({"step": step, "valid/nll": value})
            if step in rungs:
                self.ledger.write_rung(key, step, {"valid/nll": value, "step": step})
            if step == until:
                status = "stopped"
                break
        record = {"id": row.id, "seed": seed, "spec": row.spec.model_dump(), "keys": {"train": key, "decode": None, "score": None}}
        self.ledger.write_spec(key, record)
        self.ledger.write_train(key, {"status": status, "steps": len(reports), "seconds": 2.0, "reason": ""})
        (self.ledger.run_dir(key) / "history.jsonl").write_text("".join(json.dumps(each) + "\n" for each in reports))
        view = RunView.read(self.ledger, {"": replace(keys, decode=None, score=None)})
        return Result(id=row.id, seed=seed, view=view, outcome=Outcome(status), folder="")


@pytest.fixture
def rows(spec) -> list[Row]:
    return resolve(spec(ROWS))


@pytest.fixture
def searched(rows: list[Row], tmp_path) -> Callable[..., tuple[Search, list[Any], Fake]]:
    """`searched(loss, **section)`: the search after its run, its arms, and what stood for `execute`."""

    def run(loss, *, names: Sequence[str] = ("base", "low"), **section) -> tuple[Search, list[Any], Fake]:
        ledger = Ledger(tmp_path / "results")
        fake = Fake(ledger, loss)
        search = Search(tuning(**section), fake, ExecutionOptions(results=ledger.root, name="demo"), ledger)
        arms = arms_of([row for row in rows if row.id.rpartition("/")[2] in names], search.tuning)
        search.run(arms)
        return search, arms, fake

    return run
