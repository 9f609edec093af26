"""ASHA replayed over the demo's runs."""

import json
from dataclasses import replace
from typing import Any

import pytest

from orchestrator.analysis.kinds.asha import analyse
from orchestrator.errors import UserError
from tests.unit.analysis.conftest import drawn

FINALS = {"base": 3.0, "hier": 1.0, "iter": 2.0, "hop1": 4.0}


@pytest.fixture
def grid(own: Any) -> Any:
    """Four full runs of eight updates, each validated at every second, in the order of their ends from the start."""
    for name, final in FINALS.items():
        key = own.subject(name).train_key
        reports = [{"step": step, "valid/nll": final + 8.0 / step} for step in (2, 4, 6, 8)]
        folder = own.ledger.run_dir(key)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "history.jsonl").write_text("".join(json.dumps(r) + "\n" for r in reports))
        own.ledger.write_train(key, {"status": "done", "steps": 8, "params": 1, "seconds": 4.0})
    return own


def values(made: Any, name: str) -> dict[Any, Any]:
    return {r["reduction_factor"]: r[name] for r in made.records if name in r and "row" not in r}


def test_what_is_spent_and_what_is_kept(grid):
    made = analyse(grid.context("asha", *FINALS, options=["orders=200", "top=2", "reduction_factor=2,4"]))
    assert values(made, "best_kept") == {2: 1.0, 4: 1.0}  # no curve crosses another
    assert 0.25 < values(made, "share")[4] <= values(made, "share")[2] + 0.25 < 1.25
    survived = {r["row"].rpartition("/")[2]: r["survived"] for r in made.records if "row" in r and r["reduction_factor"] == 2}
    assert survived["hier"] == 1.0 > survived["iter"] > survived["hop1"]
    assert "the best 2: small/hier, small/iter" in " ".join(made.notes)
    assert [len(axes.lines) for axes in drawn(made).axes] == [4]


def test_a_training_that_rows_share_is_one_run(grid, about):
    context = grid.context("asha", *FINALS, options=["orders=2", "top=2"])
    twin = about(grid.rows["hier"], id="demo/small/twin")
    made = analyse(replace(context, subjects=[*context.subjects, grid.subject(twin)]))
    assert "demo/small/twin: the training of demo/small/hier; a sweep trains it once" in made.notes
    assert not any(r["row"] == twin.id for r in made.records if "row" in r)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("metric=valid/nil", "did you mean valid/nll"),
        ("rungs=3", "was not validated at step 3"),
        ("top=9", "expected at most 4"),
        ("reduction_factor=1", "expected whole numbers >= 2"),
    ],
)
def test_bad_options(grid, option, message):
    with pytest.raises(UserError, match=message):
        analyse(grid.context("asha", *FINALS, options=["orders=2", option]))
