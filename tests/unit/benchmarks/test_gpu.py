"""benchmarks/gpu: the campaign goes on after a part that fails; the speeds say where there is no device, and their path runs."""

import argparse
import json

import campaign
import pytest
import speed
import typer
from sizes import SIZES

from orchestrator.cli.main import app
from orchestrator.specs.index import find_all


@pytest.mark.slow
def test_the_path_runs_on_a_cpu(monkeypatch, capsys):
    few = "--json --device cpu --size tiny --batch-tokens 200 --updates 1 --rounds 1 --batches 4 --length 5 --forms padded packed --plain"
    monkeypatch.setattr("sys.argv", ["speed.py", *few.split(), "plain torch"])
    speed.main()
    found = json.loads(capsys.readouterr().out)["tiny"]
    rows = found["training"]["rows"]
    assert set(rows) == {"padded", "packed", "plain torch"} and all(each["tokens_per_second"] > 0 for each in rows.values())
    kinds = [(1, "fp32"), (1, "bf16"), (5, "fp32"), (5, "bf16")]
    assert [(line["beam"], line["precision"]) for line in found["decoding"]] == kinds
    assert all(rates["sentences_per_second"] > 0 for line in found["decoding"] for rates in line["rows"].values())


def test_the_parts_that_no_cpu_runs_name_commands_rows_and_sizes_that_exist(tmp_path) -> None:
    parts = campaign.parts(argparse.Namespace(out=tmp_path, data_dir=None, toy=False))
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    for name, *words in [part.command[3:] for part in parts if part.command[1:3] == ["-m", "orchestrator"]]:
        commands[name].make_context(name, list(words))
        assert find_all(words[0])
    (speed_of,) = [part.command for part in parts if part.name == "speed"]
    assert set(speed_of[speed_of.index("--size") + 1 :]) <= set(SIZES)
