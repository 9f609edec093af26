"""Rows of the shipped grid, and the ablation of one, train end to end under the smoke profile."""

import json
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
ROWS = (
    "d6-hierarchical-both-residual_top-transparent",
    "d6-mlrf-decoder-hops2-biarn-T2-gated_all",
    "d6-dense-encoder-msc",
    "d6-hyper-decoder-streams2-transparent",
)


def test_rows_of_the_grid_train(cli: Any, tmp_path: Path) -> None:
    places = ("--profile", "smoke", "--no-tracking", "--json", "--results", tmp_path / "r", "--cache-dir", tmp_path / "c")
    code, out, err = cli("sweep", f"sweeps/fusion-grid/{','.join(ROWS)}", "--engine", "local", *places)
    assert code == 0, err
    records = {record["id"]: record["status"] for record in map(json.loads, out.splitlines())}
    assert all(records[f"sweeps/fusion-grid/{row}"] == "done" for row in ROWS)


def test_an_ablation_sweeps_and_is_a_table_with_differences(cli: Any, tmp_path: Path) -> None:
    path = tmp_path / "ablated.yaml"
    path.write_text(cli("ablate", "sweeps/fusion-grid/d6-multi_layer-encoder-k2-transparent")[1])
    places = ("--profile", "smoke", "--results", tmp_path / "r", "--cache-dir", tmp_path / "c")
    records = [json.loads(line) for line in cli("sweep", path, "--engine", "local", "--no-tracking", "--json", *places)[1].splitlines()]
    assert len(records) == 4 and {record["status"] for record in records} == {"done"}
    table = json.loads(cli("table", path, "--format", "json", *places)[1])
    assert [("delta" in row["ours"]) for row in table["rows"]] == [False, True, True, True], "against the whole row"
