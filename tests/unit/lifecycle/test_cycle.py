"""The commands one after the other on a row that was really trained."""

import contextlib
import io
import json
import sys

import pytest

from orchestrator.cli.main import run
from orchestrator.lifecycle.loader import Translator
from tests.unit.lifecycle.life import rows_in


@pytest.mark.slow
def test_after_gc_everything_is_still_done_and_translates(trained, copy, cli, monkeypatch):
    spec, _, cache = trained
    parent, child = (copy / rows_in(copy)[f"life/cycle/{name}"][:16] for name in ("base", "child"))
    options = ("--results", copy, "--cache-dir", cache)
    table = cli("table", spec, "--format", "json", "--results", copy)[1]
    assert cli("gc", "--results", copy, "--delete")[0] == 0
    assert not list(copy.glob("*/ckpt")) and (parent / "weights" / "last.json").exists() and (child / "weights" / "last.json").exists()
    code, out, err = cli("gc", "--results", copy, "--delete", "--weights", "--json")
    assert code == 0 and {item["run"] for item in json.loads(out)["items"]} == {child.name}
    assert {(one["row"], one["rule"]) for one in json.loads(out)["kept"]} == {("life/cycle/base seed 1", "init_from")}
    code, _, err = cli("sweep", spec, "--engine", "local", "--no-tracking", *options)
    assert code == 0 and "0 steps executed" in err and cli("table", spec, "--format", "json", "--results", copy)[1] == table
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a b\n")))
    monkeypatch.setattr(Translator, "translate", lambda *_: ["für"])
    with contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO(), "ascii")) as out:
        assert run(["translate", f"{spec}#base", *map(str, options)]) == 0 and out.buffer.getvalue() == "für\n".encode()
    code, _, err = cli("translate", f"{spec}#child", *options)
    assert code == 2 and f"expected nmt-ablate repro {child.name} --into FOLDER --results {copy}" in err, "`run` would repeat nothing"
    code, _, err = cli("translate", f"{spec}#child", "--seed", 77, *options)
    assert code == 2 and "no trained weights" in err and "#child' --seed 77 --results" in err
