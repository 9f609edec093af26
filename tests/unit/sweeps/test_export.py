"""What `--export` copies."""

from __future__ import annotations

import json

import pytest

from orchestrator.ledger.results import Ledger

ROWS = "  a: {train: {max_steps: 2}}\n  b: {train: {max_steps: 2}, model: {d_ff: 24}}\n"


@pytest.mark.slow
def test_the_texts_of_one_seed_a_row_are_enough_for_tables_and_for_another_call(cli, spec, tmp_path):
    path, shipped, cache = spec(ROWS), tmp_path / "shipped", ["--cache-dir", tmp_path / "cache"]
    sweep = ["sweep", path, "--seeds", "3,2", "--engine", "local", "--no-tracking", "--json", *cache]
    code, _, err = cli(*sweep, "--results", tmp_path / "results", "--export", shipped)
    assert code == 0, err
    seeds = {run.path.name: Ledger(shipped).read_spec(run.key)["seed"] for run in Ledger(shipped).runs()}
    assert sorted(seeds.values()) == [2, 2, 3, 3]
    assert [seeds[file.parts[-3]] for file in shipped.rglob("decode/*.txt")] == [2, 2]
    tables = [json.loads(cli("table", path, "--json", "--results", at, *cache)[1]) for at in (tmp_path / "results", shipped)]
    assert tables[0] == tables[1]
    assert "nothing to do" in cli(*sweep, "--results", shipped)[2]
