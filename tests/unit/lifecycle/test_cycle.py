"""The commands one after the other on a row that was really trained."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.unit.lifecycle.life import ROOT, rows_in


@pytest.fixture
def copy(trained, tmp_path) -> Path:
    return Path(shutil.copytree(trained[1], tmp_path / "results"))


@pytest.mark.slow
def test_after_gc_everything_is_still_done_and_translates(trained, copy, cli, monkeypatch):
    import io

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
    assert cli("translate", f"{spec}#base", *options)[0] == 0
    code, _, err = cli("translate", f"{spec}#child", *options)
    assert code == 2 and "no trained weights" in err


@pytest.mark.slow
def test_terminated_and_called_again_it_has_the_same_bits(trained, tmp_path):
    spec, results, cache = trained
    options = ["--results", str(tmp_path / "results"), "--cache-dir", str(cache)]
    command = [sys.executable, "-m", "orchestrator", "run", f"{spec}#base", *options, "--no-tracking", "--json"]
    slow = os.environ | {"NMT_FAULT": "step@5:sleep3", "PYTHONPATH": str(ROOT)}
    running = subprocess.Popen(command, cwd=tmp_path, env=slow, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 300
    while not list(tmp_path.glob("results/*/ckpt/step-00000003/manifest.json")) and time.monotonic() < deadline:
        time.sleep(0.05)
    running.terminate()
    assert running.wait(200) == 130 and list(tmp_path.glob("results/*/ckpt/step-0000000[345]/manifest.json"))
    again = subprocess.run(command, cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=300)
    assert again.returncode == 0, again.stderr
    key = rows_in(results)["life/cycle/base"][:16]
    recorded = json.loads((results / key / "train.json").read_text())["weights_sha256"]
    assert json.loads(again.stdout)["weights_sha256"] == recorded
    assert len((tmp_path / "results" / key / "journal.jsonl").read_text().splitlines()) == 6, "no step was done twice"
