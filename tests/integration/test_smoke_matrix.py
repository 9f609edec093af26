"""Every shipped run row of a paper's table trains end to end under the smoke profile."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("table", ["dou2018/table1"])
def test_every_row_is_done_and_the_table_prints(table, tmp_path):
    places = ["--results", str(tmp_path / "results")]
    sweep = [
        sys.executable,
        "-m",
        "orchestrator",
        "sweep",
        table,
        "--profile",
        "smoke",
        "--engine",
        "local",
        "--no-tracking",
        "--json",
        *places,
    ]
    done = subprocess.run([*sweep, "--cache-dir", str(tmp_path / "cache")], cwd=ROOT, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-2000:]
    records = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(records) == 10 and {r["status"] for r in records} == {"done"}
    for form in ("md", "json", "latex", "html"):
        command = [sys.executable, "-m", "orchestrator", "table", table, "--profile", "smoke", "--format", form, *places]
        printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
        assert printed.returncode == 0, printed.stderr
        assert "28.63" in printed.stdout
