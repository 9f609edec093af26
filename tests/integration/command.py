"""The command line in a process of its own."""

import subprocess
import sys

from orchestrator.paths import ROOT


def call(*arguments: object, code: int | None = 0) -> subprocess.CompletedProcess[str]:
    """`nmt-ablate` with these arguments in the folder of the repository; fails where it ends with another code."""
    command = [sys.executable, "-m", "orchestrator", *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=800)
    assert code is None or done.returncode == code, f"{arguments}: {done.stderr[-3000:]}"
    return done
