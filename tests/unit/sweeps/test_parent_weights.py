"""A row that starts from a row whose results are shipped without weights."""

import json

import pytest

from orchestrator.cli.commands import request

ROWS = "  a: {train: {max_steps: 2}}\n  b: {train: {max_steps: 2}, init_from: a}\n"


@pytest.mark.slow
def test_a_parent_without_weights_trains_again_before_its_child(cli, spec, tmp_path, monkeypatch):
    path, shipped, cache = spec(ROWS), tmp_path / "shipped", ["--cache-dir", tmp_path / "cache"]
    run = ["--engine", "local", "--no-tracking", "--json", *cache]
    code, out, err = cli("run", f"{path}#a", *run, "--results", tmp_path / "elsewhere")
    assert code == 0, err
    assert cli("results", "export", shipped, "--results", tmp_path / "elsewhere")[0] == 0
    alone = json.loads(out)

    monkeypatch.setattr(request, "PUBLISHED_LEDGER", shipped)
    results = ["--results", tmp_path / "results"]
    assert "nothing to do" in cli("run", f"{path}#a", *run, *results)[2], "a shipped result is enough by itself"
    planned = json.loads(cli("plan", path, "--json", *cache, *results)[1])
    assert [row["status"] for row in planned["rows"]] == ["new", "new"] and "weights" in planned["rows"][0]["reason"]
    assert [planned["cost"][name]["trainings"] for name in ("done", "left")] == [0, 2]
    code, out, err = cli("run", f"{path}#b", *run, *results)
    assert code == 0 and [json.loads(line)["status"] for line in out.splitlines()] == ["done", "done"], err
    trained = [json.loads(file.read_text()) for file in (tmp_path / "results").glob("*/train.json")]
    assert len(trained) == 2 and alone["weights_sha256"] in {record["weights_sha256"] for record in trained}
    assert "nothing to do" in cli("run", f"{path}#b", *run, *results)[2]
