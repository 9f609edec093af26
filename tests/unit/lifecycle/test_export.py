"""The exported folder translates by itself, to the same words, and is whole or not there."""

import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.cli.main import run
from orchestrator.data.prepare import prepare
from orchestrator.lifecycle.loader import load
from orchestrator.specs.rows import resolve
from tests.unit.conftest import refused
from tests.unit.lifecycle.life import rows_in


@pytest.fixture(scope="module")
def exported(trained, tmp_path_factory) -> Path:
    spec, results, cache = trained
    folder = tmp_path_factory.mktemp("exported") / "model"
    assert run(["export", f"{spec}#child", "--results", str(results), "--cache-dir", str(cache), "--to", str(folder)]) == 0
    return folder


@pytest.mark.slow
def test_it_translates_to_the_same_words_without_the_orchestrator(exported, trained, cli, monkeypatch, tmp_path):
    spec, results, cache = trained
    lines = prepare(resolve(f"{spec}#child")[0].spec.data, None, cache).sources("test")[:20]
    text = "\n".join([*lines, "", "xyzzy " + lines[0]]) + "\n"
    stdin = io.TextIOWrapper(io.BytesIO(text.encode()))
    monkeypatch.setattr(sys, "stdin", stdin)
    code, want, err = cli("translate", f"{spec}#child", "--results", results, "--cache-dir", cache)
    assert code == 0, err
    # no orchestrator, nothing of this checkout, another working folder
    program = (
        "import runpy, sys\nsys.modules['orchestrator'] = None\n"
        f"runpy.run_path({str(exported / 'translate.py')!r}, run_name='__main__')\n"
        "loaded = [m for m in sys.modules if m.partition('.')[0] in ('pydantic', 'ray', 'mlflow', 'yaml')]\n"
        f"sys.exit(repr(loaded) if loaded or not sys.modules['models'].__file__.startswith({str(exported)!r}) else 0)\n"
    )
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, input=text.encode(), capture_output=True, cwd=tmp_path, env=environment, timeout=600)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.decode() == want and len(set(want.splitlines())) > 1
    script = [sys.executable, exported / "translate.py"]
    given = subprocess.run([*script, "a.txt"], input=b"", capture_output=True, env=environment, timeout=600)
    assert given.returncode == 2 and given.stderr.startswith(b"error: found the argument 'a.txt'; expected none")
    read, write = os.pipe()
    os.close(read)
    closed = subprocess.run(script, input=text.encode(), stdout=write, stderr=subprocess.PIPE, env=environment, timeout=600)
    assert closed.returncode == -signal.SIGPIPE and b"Traceback" not in closed.stderr
    os.close(write)
    (scored,) = (results / rows_in(results)["life/cycle/child"][:16]).glob("decode/*.txt")
    assert want.splitlines()[:20] == scored.read_text().splitlines()[:20], "what was scored"


def test_the_folder_says_what_it_is(exported, trained, cli):
    results = trained[1]
    config = json.loads((exported / "config.json").read_text())
    record = json.loads(next(path for path in results.glob("*/train.json") if config["weights_sha256"] in path.read_text()).read_text())
    card = (exported / "README.md").read_text()
    assert record["status"] == "done" and all(text in card for text in ("# life/cycle/child, seed 1", "nrefs:1", "life/cycle/base"))
    assert json.loads((exported / "capsule.json").read_text())["device"] == "cpu" and r"git\_commit" in card
    sums = subprocess.run(["sha256sum", "-c", "--quiet", "SHA256SUMS"], cwd=exported, capture_output=True, text=True)
    assert sums.returncode == 0, sums.stdout
    code, out, _ = cli("plan", exported / "row.yaml", "--results", results, "--json")
    assert code == 0 and [row["status"] for row in json.loads(out)["rows"]] == ["done"], "row.yaml is the row"


def test_damaged_weights_are_not_used(exported, tmp_path):
    for path in exported.iterdir():
        if path.is_file():
            (tmp_path / path.name).write_bytes(path.read_bytes())
    assert load(tmp_path).translate(["a b"])
    assert "found a str; expected a list of sentences" in refused(load(tmp_path).translate, "a b")[0]
    data = bytearray((tmp_path / "model.safetensors").read_bytes())
    data[-1] ^= 1
    (tmp_path / "model.safetensors").write_bytes(data)
    with pytest.raises(ValueError, match="sha256 differs"):
        load(tmp_path)


def test_killed_half_way_nothing_is_there(trained, tmp_path, forked):
    spec, results, cache = trained
    arguments = ["export", f"{spec}#base", "--results", str(results), "--cache-dir", str(cache), "--to", str(tmp_path / "model")]
    assert forked(lambda: run(arguments), "export_pre_rename:kill") == -signal.SIGKILL
    assert not (tmp_path / "model").exists()
