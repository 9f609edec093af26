"""A probe on a machine with other work: CPU time counts, and the plan says that it was busy."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest

from orchestrator.cost import measure
from orchestrator.cost.plan_costs import lines
from orchestrator.errors import StopTraining
from orchestrator.ledger.keys import Keys
from orchestrator.sweeps.cost import Cost, Sum
from orchestrator.sweeps.plan import Plan, Planned


class Clocks:
    """Time that passes, and the part of it that this process gets."""

    def __init__(self, monkeypatch: Any, share: float) -> None:
        self.wall, self.share = 0.0, share
        monkeypatch.setattr(time, "perf_counter", lambda: self.wall)
        monkeypatch.setattr(time, "process_time", lambda: self.wall * self.share)


@pytest.mark.parametrize("share", [1.0, 0.25])
def test_updates_cost_what_they_cost_on_a_free_core(monkeypatch: Any, share: float) -> None:
    clocks = Clocks(monkeypatch, share)
    batch = SimpleNamespace(src=None, tgt_out=None)
    update = SimpleNamespace(micro_batches=[batch])
    progress = SimpleNamespace(seconds=0.0)

    def one_update(self: Any, update: Any, schedule: Any) -> None:
        clocks.wall += 1.0 / clocks.share
        progress.seconds += 1.0 / clocks.share

    monkeypatch.setattr(measure.Trainer, "train_step", one_update)
    monkeypatch.setattr(measure, "work", lambda *sizes: SimpleNamespace(training=lambda tokens: 100.0))
    monkeypatch.setattr(measure, "_sizes", lambda model: (1, 1))
    monkeypatch.setattr(measure, "_tokens", lambda *sides: None)
    training = object.__new__(measure._Timed)
    training.spec = SimpleNamespace(train=SimpleNamespace(threads=1), model=None)
    training.runtime = SimpleNamespace(device=SimpleNamespace(type="cpu"))
    training.progress, training.model = progress, None
    with pytest.raises(StopTraining):
        while True:
            training.train_step(update, None)
    found = training.measured()
    assert found["train_seconds"] / found["train_flops"] == pytest.approx(0.01)
    assert found["others"] == pytest.approx(1 / share - 1, abs=0.01)


def test_the_plan_says_that_the_machine_was_busy() -> None:
    def told(others: float | None) -> list[str]:
        row = Planned("a/b/c", 1, Keys("1", "2", "3"), 1, "new", cost=Cost("probed", 1, others=others))
        sums = {name: Sum() for name in ("alone", "shared", "done", "left")}
        return [line for line in lines(Plan([row], totals=sums)) if "busy" in line]

    assert told(None) == told(0.1) == []
    (line,) = told(1.8)
    assert "1.8 others a core" in line


def test_several_threads_go_by_the_load(monkeypatch: Any) -> None:
    monkeypatch.setattr(measure.os, "getloadavg", lambda: (6.0, 0.0, 0.0))
    monkeypatch.setattr(measure.os, "cpu_count", lambda: 2)
    assert measure.others(10.0, 10.0, one_thread=False) == 2.0 and measure.others(10.0, 10.0, one_thread=True) == 0.0
