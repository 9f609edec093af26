"""Rows of the shipped grid, and the ablation of one, train end to end under the smoke profile."""

import json
from pathlib import Path

import pytest

from tests.integration.command import call

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
ROWS = (
    "d6-hierarchical-both-residual_top-transparent",
    "d6-mlrf-decoder-hops2-biarn-T2-gated_all",
    "d6-dense-encoder-msc",
    "d6-hyper-decoder-streams2-transparent",
)


def test_rows_of_the_grid_train(tmp_path: Path) -> None:
    places = ("--profile", "smoke", "--no-tracking", "--json", "--results", tmp_path / "r", "--cache-dir", tmp_path / "c")
    done = call("sweep", f"sweeps/fusion-grid/{','.join(ROWS)}", "--engine", "local", *places)
    records = {record["id"]: record["status"] for record in map(json.loads, done.stdout.splitlines())}
    assert all(records[f"sweeps/fusion-grid/{row}"] == "done" for row in ROWS)


def test_an_ablation_sweeps_and_is_a_table_with_differences(tmp_path: Path) -> None:
    path = tmp_path / "ablated.yaml"
    path.write_text(call("ablate", "sweeps/fusion-grid/d6-multi_layer-encoder-k2-transparent").stdout)
    places = ("--profile", "smoke", "--results", tmp_path / "r", "--cache-dir", tmp_path / "c")
    done = call("sweep", path, "--engine", "local", "--no-tracking", "--json", *places)
    records = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(records) == 4 and {record["status"] for record in records} == {"done"}
    table = json.loads(call("table", path, "--format", "json", *places).stdout)
    assert [("delta" in row["ours"]) for row in table["rows"]] == [False, True, True, True], "against the whole row"
