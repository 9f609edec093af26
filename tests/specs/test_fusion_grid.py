"""The grid that is shipped: large, whole, and its rows are what they are one by one."""

import random

import pytest
import torch

from models.transformer import build, count_parameters
from orchestrator.ledger.keys import keys_of
from orchestrator.specs import index
from orchestrator.specs.grid.combinations import Grid
from orchestrator.specs.grid.explain import summary
from orchestrator.specs.row import Row
from orchestrator.specs.rows import MAX_RUNS, resolve
from orchestrator.sweeps.parts import params

pytestmark = pytest.mark.slow
ADDRESS = "sweeps/fusion-grid"
SAMPLE = 12


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return resolve(ADDRESS)


def test_it_has_thousands_of_rows_and_runs_without_force(rows: list[Row]) -> None:
    assert 8000 < len(rows) <= MAX_RUNS and len({row.id for row in rows}) == len(rows)
    kinds = {row.spec.model.encoder.num_layers for row in rows if row.spec is not None}
    assert kinds == {6, 12, 18, 36, 54, 72}


def test_no_condition_is_there_for_nothing_and_no_component_refuses(rows: list[Row]) -> None:
    """What cannot be built is excluded by a condition with a reason, not by surprise."""
    table = index.find(ADDRESS).table
    found = summary(table)
    assert len(found["excluded"]) == len(table.grid.exclusions)
    assert found["rows"] == len(rows) - 1


def test_counts_are_those_of_built_models(rows: list[Row]) -> None:
    for row in random.Random(7).sample(rows, SAMPLE):
        with torch.device("meta"):
            assert params(row.spec, 4000, 4000) == count_parameters(build(row.spec.model.model_dump(), 4000, 4000)), row.id


def test_rows_are_what_they_are_alone_and_differ_in_meaning(rows: list[Row]) -> None:
    for row in random.Random(3).sample(rows, SAMPLE):
        assert resolve(row.id)[0].spec == row.spec, row.id
    manifest = {"text": {"train": ["1"], "valid": ["2"]}, "tests": {"test": ["3"]}}
    assert len({keys_of(row.spec, manifest, None).train for row in rows if row.spec is not None}) == len(rows)


def test_list_tells_the_axes_and_makes_no_row(cli, monkeypatch) -> None:
    monkeypatch.setattr(Grid, "combinations", property(lambda _: pytest.fail("combinations were listed")))
    assert "1 rows" in cli("list")[1]
    out = cli("list", ADDRESS)[1]
    assert len(out.splitlines()) == 2 and "depth" in out and f"{ADDRESS}/baseline" in out
