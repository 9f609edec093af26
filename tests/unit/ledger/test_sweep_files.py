"""A file that no sweep wrote: `status` names it and goes on with the others."""

import json
import re
from pathlib import Path

import pytest

from orchestrator.cli.main import run
from orchestrator.errors import UserError
from orchestrator.files.documents import read_document, sealed
from orchestrator.ledger import sweep_files
from orchestrator.ledger.results import Ledger
from orchestrator.sweeps.asha import KEY, Asha, stopped_runs
from orchestrator.sweeps.status import sweep_status


def test_what_no_sweep_wrote_is_named(fake_results, capsys) -> None:
    fake_results.sweep([fake_results.row("a")], "good")
    texts = ("{", "[" * 99_999, "[]", "3", json.dumps({"rows": {}}), json.dumps({"rows": [], "digest": 3}))
    for number, text in enumerate(texts):
        Path(fake_results.root / "sweeps" / f"bad{number}.json").write_text(text)
        assert [sweep.file for sweep in sweep_status(Ledger(fake_results.root))] == ["good"], text[:20]
        (line,) = capsys.readouterr().err.splitlines()
        assert re.search(rf"bad{number}\.json: (holds no JSON|its digest is missing).*passed over", line), line
    assert run(["status", "--results", str(fake_results.root)]) == 0
    out, err = capsys.readouterr()
    assert "good" in out and "bad0.json" in err


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
    assert "a.json.corrupt, with the looks" in capsys.readouterr().err


def test_a_damaged_record_of_a_search_is_named(tmp_path, capsys) -> None:
    """The search refuses it; `status` names it and shows the rest. A file without a digest is none."""
    path = tmp_path / "sweeps" / "s.asha.json"
    search = Asha([2], 3, "valid/nll", set(), path)
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
            Asha([2], 3, "valid/nll", set(), other)
        assert stopped_runs(other) == {} and f"{number}.asha.json: its digest" in capsys.readouterr().err
    path.write_text(json.dumps(sealed({"eta": 3, "sign": 1.0, "rungs": {"2": [3]}}, KEY)))
    with pytest.raises(UserError, match=r"s\.asha\.json: holds no decisions"):
        Asha([2], 3, "valid/bleu", set(), path)
