"""Loss curves of generated histories: epochs, cuts, what is saved, and what the paper says of it."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from orchestrator.analysis.kinds.loss_curves import analyse, below, losses_of, measures
from tests.unit.analysis.conftest import drawn
from tests.unit.conftest import refused

EPOCH = 10
"""Updates."""


def history(valid: Sequence[float], *, above: float = 0.5, seconds: float = 2.0) -> list[dict[str, Any]]:
    """One validation an epoch; in between a report of the training loss. Training is `above` validation."""
    reports: list[dict[str, Any]] = [{"step": 0, "total_steps": EPOCH * len(valid), "t": 100.0}]
    for epoch, nll in enumerate(valid, start=1):
        middle, end = EPOCH * epoch - EPOCH // 2, EPOCH * epoch
        reports.append({"step": middle, "train/nll": nll + above, "train/epoch": epoch - 1, "t": 100.0 + seconds * (epoch - 0.5)})
        reports.append({"step": end, "train/nll": nll + above, "train/epoch": epoch, "valid/nll": nll, "t": 100.0 + seconds * epoch})
    return reports


def cut_after(*epochs: int) -> dict[str, Any]:
    return {"rate_cuts": [{"step": EPOCH * epoch, "epoch": epoch, "lr": 0.25 / 10**i} for i, epoch in enumerate(epochs, start=1)]}


def falling(epochs: int, rise: int, *, start: float = 6.0, end: float = 2.0) -> list[float]:
    """Falls evenly to `end` at the epoch before `rise`, rises there, and stays lower behind it."""
    fall = [start + (end - start) * epoch / (rise - 1) for epoch in range(1, rise)]
    return [*fall, end + 0.5, *([end - 0.125] * (epochs - rise))]


def trained(lab, name: str, valid: Sequence[float], *, words: float = 100.0, ended_by: str = "min_lr", cuts: Sequence[int] = ()) -> None:
    """A run of the demo gets this history, and a record that goes with it."""
    key = lab.subject(name).train_key
    lines = "".join(json.dumps(report) + "\n" for report in history(valid))
    (lab.ledger.run_dir(key) / "history.jsonl").write_text(lines)
    about = {"status": "done", "steps": EPOCH * len(valid), "epochs": len(valid), "params": 1, "tokens_per_second": words}
    lab.ledger.write_train(key, about | {"ended_by": ended_by} | (cut_after(*cuts) if cuts else {}))


def values(made, row: str) -> dict[str, Any]:
    return {r["measure"]: r["value"] for r in made.records if r["row"].endswith(f"/{row}") and r["measure"] != "nll"}


def papers(made, row: str) -> dict[str, Any]:
    found = {r["measure"]: r.get("paper") for r in made.records if r["row"].endswith(f"/{row}")}
    return {name: value for name, value in found.items() if value is not None}


def test_the_training_loss_of_a_point_is_the_mean_since_the_validation_before() -> None:
    reports = [
        {"step": 4, "train/nll": 5.0, "train/epoch": 0},
        {"step": 10, "train/nll": 3.0, "train/epoch": 0, "valid/nll": 2.5, "t": 7.0},
        {"step": 20, "train/nll": 2.0, "train/epoch": 1, "valid/nll": 2.25, "t": 9.5},
        {"step": 25, "train/nll": 1.0, "train/epoch": 1, "valid/nll": 2.0, "t": 10.0},
    ]
    points = losses_of(reports, {}).points
    assert [p.train for p in points] == [pytest.approx((4 * 5.0 + 6 * 3.0) / 10), 2.0, 1.0]
    assert [p.epochs for p in points] == [0.5, 1.0, 1.25]


def test_the_cut_belongs_to_the_validation_that_rose() -> None:
    found = losses_of(history([3.0, 2.0, 2.5, 1.5]), cut_after(3), "first-cut")
    assert found.cut is not None and found.cut.epochs == 3.0 and found.cut.valid == 2.5
    assert [p.step for p in found.points] == [10, 20, 30]
    assert losses_of(history([3.0, 2.0]), {}).cut is None


def test_time_saved_is_reckoned_as_in_the_paper(own) -> None:
    """Cuts after 20 and 13 epochs and four epochs more, 1710 and 1571 words/s: 35% of the epochs, 29.3% and 22.9% of the time."""
    trained(own, "base", falling(24, 20), words=1710.0, cuts=(20, 21, 22, 23))
    trained(own, "hier", falling(17, 13), words=1571.0, cuts=(13, 14, 15, 16))
    made = analyse(own.context("loss-curves", "base", "hier", options=["until=first-cut"]))
    found = values(made, "hier")
    assert found["epochs_to_first_cut"] == 13.0
    assert found["epochs_saved_to_first_cut_pct"] == pytest.approx(35.0)
    assert found["speed_ratio"] == pytest.approx(1571 / 1710, abs=1e-6)
    assert found["time_saved_to_first_cut_pct"] == pytest.approx(29.3, abs=0.06)
    assert found["time_saved_to_end_pct"] == pytest.approx(22.9, abs=0.06) and found["epochs_to_end"] == 17.0
    assert (found["epochs_to_baseline_loss"], values(made, "base")["epochs_to_baseline_loss"]) == (12.0, 19.0)
    assert found["epochs_saved_to_baseline_loss_pct"] == pytest.approx(100 * 7 / 19, abs=1e-4)
    assert "epochs_saved_to_first_cut_pct" not in values(made, "base"), "a baseline saves nothing of its own"


def test_what_never_happens_is_said(own) -> None:
    trained(own, "base", [4.0, 3.0, 2.0], ended_by="max_epochs")
    trained(own, "hier", [4.5, 4.0, 3.5], ended_by="max_epochs")
    made = analyse(own.context("loss-curves", "base", "hier", options=["until=first-cut"]))
    said = {r["measure"]: (r["value"], r["note"]) for r in made.records if r["row"].endswith("hier")}
    assert said["epochs_to_baseline_loss"] == said["epochs_saved_to_baseline_loss_pct"] == (None, "not reached")
    assert said["epochs_to_first_cut"] == (None, "no cut within the run")
    assert said["epochs_saved_to_end_pct"] == (None, "ended at its limit of updates or epochs")
    assert sum("no cut of the rate within its run" in note for note in made.notes) == 2


def test_lower_throughout_or_not() -> None:
    low, high = (losses_of(history(valid), {}).points for valid in ([3.0, 2.0, 1.0], [4.0, 3.0, 2.0, 1.5]))
    assert below(low, high, "valid") == below(low, high, "train") == 100.0
    crossing = losses_of(history([3.0, 2.0, 2.5, 1.75]), {}).points
    assert below(crossing, high, "valid") == 50.0
    bare = losses_of([{"step": 15, "valid/nll": 3.0}], {}).points
    assert below(bare, high, "valid") == 100.0, "by updates where one has no epochs: the line is at 3.5"
    late = losses_of([{"step": 95, "valid/nll": 0.0}], {}).points
    assert below(late, high, "valid") is None, "nothing is guessed behind the end of a line"


def test_epochs_decide_not_updates() -> None:
    """A row with batches of half the size makes twice the updates an epoch."""
    base = losses_of(history([4.0, 3.0, 2.0, 1.0]), {})
    row = losses_of([r | {"step": 2 * r["step"]} for r in history([2.0, 1.0])], {})
    found = {m["measure"]: m["value"] for m in measures(row, base, None)}
    assert found["epochs_saved_to_baseline_loss_pct"] == 50.0
    assert found["time_saved_to_baseline_loss_pct"] is None and found["speed_ratio"] is None


def test_a_panel_for_each_analysis_row_with_the_papers_figures(own) -> None:
    for name in ("base", "hier", "iter", "hop1"):
        trained(own, name, [4.0, 3.0, 2.0])
    expect = {"epochs_to_first_cut": 13, "time_saved_to_end_pct": 22.9, "words_per_second": 1571}
    names = {name: own.rows[name].id for name in own.rows}
    left = replace(own.rows["later"], id="demo/small/left", label="left panel", spec=None, of=[names["base"], names["hier"]], expect=expect)
    right = replace(own.rows["later"], id="demo/small/right", label="right panel", spec=None, of=[names["hop1"], names["iter"]], expect={})
    base = replace(own.rows["base"], expect={"words_per_second": 1710})
    context = own.context("loss-curves", "base")
    context.subjects[:] = [own.subject(base, left), own.subject("hier", left), own.subject("hop1", right), own.subject("iter", right)]
    made = analyse(context)
    places = [("left panel", "base"), ("left panel", "hier"), ("right panel", "hop1"), ("right panel", "iter")]
    assert list(dict.fromkeys((r["panel"], r["row"].rpartition("/")[2]) for r in made.records if r["measure"] == "nll")) == places
    assert papers(made, "hier") == expect | {"speed_ratio": 0.9187} and papers(made, "base") == {"words_per_second": 1710}
    assert papers(made, "iter") == {}
    figure = drawn(made)
    assert [axes.get_title() for axes in figure.axes] == ["left panel", "right panel"]
    assert [text.get_text() for text in figure.legends[0].get_texts()][:4] == ["baseline", "hierarchical", "one hop", "iterative"]


def test_rows_without_losses_are_left_out(own) -> None:
    trained(own, "base", [4.0, 3.0])
    (own.ledger.run_dir(own.subject("hier").train_key) / "history.jsonl").write_text('{"step": 4, "train/nll": 2.0}\n')
    made = analyse(own.context("loss-curves", "base", "hier"))
    assert {r["row"] for r in made.records} == {"demo/small/base"}
    assert "demo/small/hier seed 1: its history has no validation loss; left out" in made.notes
    assert "hier seed 1: its history has no validation loss" in refused(analyse, own.context("loss-curves", "hier"))[0]
