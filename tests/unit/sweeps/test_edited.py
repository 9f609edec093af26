"""An edited component is told of: its runs, and the checkpoints that they go on from."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import orchestrator.api as nmt
from orchestrator.ledger import component_sources
from orchestrator.paths import ROOT
from tests.unit.lifecycle.life import rows_in

TOP, LINEAR = "models/plain.py", "models/aggregations/linear.py"


@pytest.fixture
def edit(tmp_path, monkeypatch) -> Callable[[str, str], None]:
    """`edit(file, text)` adds text to a file of a copy of `models`, which is from then on what the program is made of."""
    shutil.copytree(ROOT / "models", tmp_path / "code" / "models", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(component_sources, "ROOT", tmp_path / "code")

    def run(file: str, text: str = "\nX = 1\n") -> None:
        with (tmp_path / "code" / file).open("a") as out:
            out.write(text)

    return run


@pytest.mark.slow
def test_whatever_reads_results_warns_with_row_and_file(trained, copy: Path, cli, edit, capfd) -> None:
    spec, _, cache = trained
    options = ("--results", copy, "--cache-dir", cache)
    commands = {
        "run": ("run", f"{spec}#base", "--no-tracking", "--json", *options),
        "sweep": ("sweep", spec, "--engine", "local", "--no-tracking", "--json", *options),
        "plan": ("plan", spec, "--json", *options),
        "table": ("table", spec, "--format", "json", *options),
    }

    def look() -> dict[str, tuple[str, str]]:
        found = {name: cli(*command) for name, command in commands.items()}
        assert all(code == 0 for code, _, _ in found.values()), found
        assert all("0 steps executed" in found[name][2] for name in ("run", "sweep"))
        return {name: (out, err) for name, (_, out, err) in found.items()}

    edit(LINEAR)
    edit(TOP, "\n\n# a comment\n")
    assert not [err for _, err in look().values() if "changed since" in err], "another component, and a comment"
    edit(TOP)
    found = look()
    for name, (_, err) in found.items():
        rows = "life/cycle/base" if name == "run" else "life/cycle/base, life/cycle/child"
        assert f"warning: {rows}: {TOP} changed since the training" in err and f"--results {copy} --into FOLDER" in err, name
    lines = [json.loads(line) for name in ("run", "sweep") for line in found[name][0].splitlines()]
    assert [line["changed"] for line in lines] == [[TOP]] * 3
    assert [row["changed"] for row in json.loads(found["plan"][0])["rows"]] == [[TOP]] * 2
    base, child = (nmt.results(f"{spec}#{row}", results=copy, cache_dir=cache) for row in ("base", "child"))
    assert list(base.changed) == list(child.changed) == [TOP]
    capfd.readouterr()
    nmt.compare(f"{spec}#child", f"{spec}#base", results=copy, cache_dir=cache)
    for err in (capfd.readouterr().err, cli("verdict", spec, *options)[2]):
        assert f"warning: life/cycle/base, life/cycle/child: {TOP} changed since the training" in err
    table = json.loads(found["table"][0])
    assert [row["ours"]["changed"] for row in table["rows"]] == [[TOP]] * 2 and any(TOP in note for note in table["notes"])


@pytest.mark.slow
def test_new_code_does_not_use_old_weights(trained, copy: Path, cli, edit, tmp_path) -> None:
    spec, _, cache = trained
    row, options = f"{spec}#base", ("--results", copy, "--cache-dir", cache)
    again = ("run", row, "--set", "decode.beam_size=3", "--no-tracking", *options)
    folder = copy / rows_in(copy)["life/cycle/base"][:16]
    files = lambda: sorted([*folder.glob("decode/*"), *folder.glob("score/*")])  # noqa: E731
    before = files()
    edit(TOP)
    analysis = ("analyse", row, "--kind", "attention-maps", "--out", tmp_path / "a", *options)
    for command in (again, analysis, ("translate", row, *options), ("export", row, "--to", tmp_path / "to", *options)):
        code, _, err = cli(*command)
        assert code and f"{TOP} changed since the training; expected the earlier code, a higher `version`" in err, command
    assert files() == before
    with pytest.raises(nmt.UserError, match="changed since the training"):
        nmt.load(row, results=copy, cache_dir=cache)


def test_a_checkpoint_of_other_code_is_told_of(trained, copy: Path, cli, edit) -> None:
    """A run goes on from it and says so, now and whenever it is looked at."""
    spec, _, cache = trained
    arguments = ("run", f"{spec}#base", "--results", copy, "--cache-dir", cache, "--no-tracking", "--json")
    run = copy / rows_in(copy)["life/cycle/base"][:16]
    for name in ("train.json", "ckpt/step-00000006"):
        (shutil.rmtree if (run / name).is_dir() else os.unlink)(run / name)
    edit(TOP)
    code, out, err = cli(*arguments)
    assert code == 0 and f"{TOP} changed since the checkpoint" in err and json.loads(out)["changed"] == [TOP]
