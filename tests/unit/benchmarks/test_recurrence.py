"""The benchmark of recurrences answers in one JSON object."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "recurrence.py"


def test_every_form_is_measured() -> None:
    options = ["--json", "--size", "tiny", "--tokens", "100", "--rounds", "1"]
    done = subprocess.run([sys.executable, str(SCRIPT), *options], capture_output=True, text=True, check=True, timeout=100)
    rows = {row["what"]: row for row in json.loads(done.stdout)["rows"]}
    wanted = {"birnn recipe: scan", "birnn recipe: loop", "biarn 8 torch: loop", "biarn J recipe: scan", "birnn torch: nn.GRU, packed"}
    assert wanted <= set(rows)
    assert all(row["ms"] > 0 for row in rows.values())
    assert all(row["to_scan"] == 1 for what, row in rows.items() if what.endswith("scan"))
