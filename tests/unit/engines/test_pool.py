"""`--jobs N`: rows side by side in worker processes have the bits of one process; one that fails or is killed ends alone."""

from __future__ import annotations

import json

import pytest

ROWS = """\
  a: {train: {max_steps: 2}}
  b: {train: {max_steps: 2}, model: {d_ff: 48}}
  c: {model: {d_ff: 40}}
  d: {model: {d_ff: 56}, init_from: c}
  e: {model: {d_ff: 64}}
"""


@pytest.fixture
def sweep(cli, spec, tmp_path):
    path = spec(ROWS)

    def run(results: str, jobs: str):
        places = ["--results", tmp_path / results, "--cache-dir", tmp_path / "cache", "--no-tracking"]
        code, out, err = cli("sweep", path, "--engine", "local", "--jobs", jobs, "--json", *places)
        return code, {record["id"].rpartition("/")[2]: record for record in map(json.loads, out.splitlines())}, err

    return run


@pytest.mark.slow
def test_rows_side_by_side(sweep, tmp_path, monkeypatch):
    monkeypatch.setenv("NMT_FAULT", "step@3:raise,step@4:kill")  # each in one of c and e, whichever comes there first
    monkeypatch.setenv("NMT_FAULT_ONCE", str(tmp_path / "once"))
    code, found, err = sweep("several", "2")
    failed = {name for name, record in found.items() if record["status"] == "failed"}
    assert code == 1 and failed == {"c", "e", "d"}, err
    reasons = sorted(found[name]["reason"] for name in ("c", "e"))
    assert reasons[0].startswith("InjectedFault: ") and "killed by SIGKILL" in reasons[1]
    assert "its parent demo/small/c:1 failed" in found["d"]["reason"]

    monkeypatch.delenv("NMT_FAULT")
    code, found, err = sweep("several", "2")
    assert code == 0, err
    code, alone, err = sweep("one", "1")
    assert code == 0, err
    same = ("status", "weights_sha256", "bleu", "steps")
    assert {name: [r[k] for k in same] for name, r in found.items()} == {name: [r[k] for k in same] for name, r in alone.items()}
