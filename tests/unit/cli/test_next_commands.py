"""The commands that are printed can be pasted into a shell: each word comes back as it was given."""

import io
import shlex
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from rich.console import Console

from orchestrator.cli import results as results_command
from orchestrator.cli.commands import submit
from orchestrator.cli.commands.run import _print_next_commands
from orchestrator.errors import ClusterError, Detached
from orchestrator.sweeps.options import ExecutionOptions

PLACE = Path("/a b/c;d 'e'")


def words(line: str) -> list[str]:
    return shlex.split(line.partition("nmt-ablate ")[2])


def test_after_a_run() -> None:
    out, row = io.StringIO(), SimpleNamespace(id="mine/t/one", source_file="my table.yaml")
    options = ExecutionOptions(results=PLACE, profile="smoke", sets=["model.d_ff=[1, 2]"], data_dir=Path("my data"), controls="params")
    _print_next_commands([row], Console(file=out, width=40), options, None)  # type: ignore[list-item]
    scale, place = ["--profile", "smoke", "--set", "model.d_ff=[1, 2]"], ["--results", str(PLACE)]
    assert [words(line) for line in out.getvalue().splitlines()] == [
        ["ui", *place],
        ["show", "my table.yaml#one", *scale],
        ["table", "my table.yaml", *scale, *place, "--data-dir", "my data", "--controls", "params"],
    ]
    _print_next_commands([row], Console(file=out), ExecutionOptions(results=PLACE, tune=True), None)  # type: ignore[list-item]
    assert words(out.getvalue().splitlines()[4]) == ["show", "my table.yaml#one@tuned", *place]


def test_after_an_import_and_detached(monkeypatch, capsys) -> None:
    merged = SimpleNamespace(added=[1], completed=[], replaced=[], kept=[], same=[], sweeps=[], files=1)
    monkeypatch.setattr("orchestrator.lifecycle.transfer.import_ledger", lambda *given, **more: merged)
    results_command.import_(Path("x"), PLACE, "keep")
    assert words(capsys.readouterr().err.splitlines()[-1]) == ["reconcile", "--results", str(PLACE)]

    monkeypatch.setenv("RAY_AUTH_TOKEN", "x")
    monkeypatch.setenv("RAY_API_SERVER_ADDRESS", "")
    monkeypatch.setattr(submit.api, "connect", Mock(side_effect=[KeyboardInterrupt, RuntimeError("status code 503")]))
    for error in (Detached, ClusterError):
        with pytest.raises(error) as caught:
            submit.follow_job("http://h:1/a?b&c", "job 1", known=True)
        told = str(caught.value) if error is Detached else capsys.readouterr().err.splitlines()[-1]
        assert words(told) == ["submit", "--attach", "job 1", "--address", "http://h:1/a?b&c"]
