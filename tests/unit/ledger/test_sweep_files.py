"""A sweep file with a value of a wrong type: `status` names file and value and goes on with the others."""

import json
from pathlib import Path
from typing import Any

import pytest

from orchestrator.cli.main import run
from orchestrator.errors import UserError
from orchestrator.files.documents import read_document, sealed
from orchestrator.ledger import sweep_files
from orchestrator.sweeps.asha import KEY, Asha, stopped_runs
from orchestrator.sweeps.status import sweep_status

BAD: list[tuple[Any, str]] = [
    ([], "found a list; expected a mapping"),
    ({"rows": {}}, "rows: found a mapping; expected a list"),
    ({"name": 3}, "name: found 3; expected text"),
    ({"rows": ["x"]}, "rows[0]: found 'x'; expected a mapping"),
    ({"id": 3}, "rows[0].id: found 3; expected text"),
    ({"seed": "1"}, "rows[0].seed: found '1'; expected a whole number"),
    ({"keys": "x"}, "rows[0].keys: found 'x'; expected a mapping"),
    ({"keys": {"train": 5}}, "rows[0].keys.train: found 5; expected text"),
    ({"keys": {"train": "ab"}}, "rows[0].keys.train: found 'ab'; string should match pattern"),
    ({"also": ["x"]}, "rows[0].also: found a list; expected a mapping"),
    ({"also": {"b": 3}}, "rows[0].also.b: found 3; expected a mapping"),
    ({"also": {"b": {"keys": {"score": 7}}}}, "rows[0].also.b.keys.score: found 7; expected text"),
    ({"failed_below": "x"}, "rows[0].failed_below: found 'x'; expected a number"),
    ({"spec": {"init_from": []}}, "rows[0].spec.init_from: found a list; expected text"),
    ("{", "holds no JSON; expected what a sweep writes"),
]


def test_wrong_types_are_named(fake_results, capsys) -> None:
    row = fake_results.row("a")
    fake_results.sweep([row], "good")
    path: Path = fake_results.root / "sweeps" / "bad.json"
    for change, message in BAD:
        sweep = {"sweep_id": "bad", "name": "bad", "rows": [row]}
        if isinstance(change, dict):
            sweep |= change if {"rows", "name"} & change.keys() else {"rows": [row | change]}
        path.write_text(change if isinstance(change, str) else json.dumps(sweep if isinstance(change, dict) else change))
        assert [sweep.file for sweep in sweep_status(fake_results.root)] == ["good"], change
        (line,) = capsys.readouterr().err.splitlines()
        assert f"bad.json: {message}" in line and "passed over" in line, (change, line)
    assert run(["status", "--results", str(fake_results.root)]) == 0
    out, err = capsys.readouterr()
    assert "good" in out and "bad.json" in err


def test_a_changed_value_is_told_until_the_sweep_is_written_again(tmp_path, capsys) -> None:
    path = tmp_path / "sweeps" / "a.json"
    sweep_files.SweepFile(path).write({"rows": [], "looks": [{"level": 0.029, "rows": {}}]})
    path.write_text(path.read_text().replace("0.029", "0.05"))
    for command in (["status"], ["gc"], ["verdict", "quickstart/fusion"]):
        run([*command, "--results", str(tmp_path)])
        err = capsys.readouterr().err
        assert "a.json: its digest" in err and path.exists(), (command, err)
    sweep_files.SweepFile(path).write({"rows": []})
    assert sweep_files.read(path)["rows"] == [] and path.with_name("a.json.corrupt").exists()


def test_a_damaged_record_of_a_search_is_named(tmp_path, capsys) -> None:
    """The search refuses it; `status` names it and shows the rest. A file without a digest is none."""
    path = tmp_path / "sweeps" / "s.asha.json"
    search = Asha([2], 3, "min", set(), path)
    assert search.decide("a:1", 2, 1.0) and not search.decide("b:1", 2, 5.0)
    whole = path.read_text()
    document = read_document(path) or {}
    assert stopped_runs(path) == {"b:1": 2}
    changed = whole.replace('"continue": false', '"continue": true')
    plain = json.dumps({name: value for name, value in document.items() if name not in ("digest", "key")})
    for number, text in enumerate(("{", "[]", changed, plain, changed.replace('"digest"', '"other"'))):
        other = path.with_name(f"{number}.asha.json")
        other.write_text(text)
        with pytest.raises(UserError, match=rf"{number}\.asha\.json: its digest is missing or not the one of its content; expected"):
            Asha([2], 3, "min", set(), other)
        assert stopped_runs(other) == {} and f"{number}.asha.json: its digest" in capsys.readouterr().err
    path.write_text(json.dumps(sealed({"eta": 3, "sign": 1.0, "rungs": {"2": [3]}}, KEY)))
    with pytest.raises(UserError, match=r"s\.asha\.json: holds no decisions"):
        Asha([2], 3, "max", set(), path)
