"""Compute to equal loss, against a power law with known constants."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from orchestrator.report import equal_loss
from orchestrator.report.equal_loss import ratios
from orchestrator.specs.row import Control, Row
from orchestrator.specs.rows import resolve
from orchestrator.sweeps.cost import Cost
from tests.unit.conftest import MINIMAL

TABLE = (
    MINIMAL
    + """\
  base: {pinned: true}
  better: {model: {d_ff: 40}}
  longer: {train: {max_steps: 8}}
"""
)
FLOP = {"base": 1e12, "better": 1.25e12, "longer": 2e12}
LOSS = {"base": 4.0, "longer": 4.0 * 2**-0.5, "better": 4.0 * 3**-0.5}
"""The baseline's loss falls with the square root of its compute; `better` is where it would be with three times as much."""


@pytest.fixture
def rows(tmp_path: Path) -> list[Row]:
    (tmp_path / "demo.yaml").write_text(TABLE, encoding="utf-8")
    base, better, longer = resolve(tmp_path / "demo.yaml")
    return [base, better, replace(longer, control=Control("flops", base.id, better.id))]


def found(
    rows: list[Row], monkeypatch: pytest.MonkeyPatch, ours: dict[str, Any] | None = None, loss: dict[str, float] = LOSS
) -> dict[str, float]:
    arms = {f"demo/small/{name}": SimpleNamespace(scores=np.array([value])) for name, value in loss.items()}
    monkeypatch.setattr(equal_loss, "Effects", lambda *_: SimpleNamespace(arms=arms))

    def cost(row: Row) -> Cost:
        flop = FLOP[row.id.rsplit("/", 1)[1]]
        return Cost("estimated", 1, 4, flop=flop, flop_update=flop / 4)

    return ratios(rows, {}, {"demo/small/better": "demo/small/base"}, None, cost, ours or {})  # type: ignore[arg-type]


def test_the_baseline_needs_so_much_more(rows: list[Row], monkeypatch: pytest.MonkeyPatch) -> None:
    assert found(rows, monkeypatch) == {"demo/small/better": pytest.approx(3 / 1.25, abs=1e-3)}
    ours = {"demo/small/base": {"train_speed": 1.0}, "demo/small/better": {"train_speed": 0.5}}
    assert found(rows, monkeypatch, ours) == {"demo/small/better": pytest.approx(3 / 2, abs=1e-3)}, "twice the time for each update"


def test_there_is_no_figure_without_a_power_law(rows: list[Row], monkeypatch: pytest.MonkeyPatch) -> None:
    assert found(rows[:2], monkeypatch) == {}, "one budget"
    assert found(rows, monkeypatch, loss=LOSS | {"longer": 4.1}) == {}, "more compute does not help"
    child = [replace(rows[1], parent=rows[0]), *rows[:1], rows[2]]
    assert found(child, monkeypatch) == {"demo/small/better": pytest.approx(3 / 2.25, abs=1e-3)}, "its parent's training counts"
