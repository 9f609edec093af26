"""The command line in a process of its own, to be killed or not; the fixture `cli` runs it in this one."""

import os
import subprocess
import sys
from subprocess import PIPE

from orchestrator.paths import ROOT


def start(*arguments: object, **environment: str) -> subprocess.Popen[str]:
    """`nmt-ablate` with these arguments and variables in the folder of the repository."""
    command = [sys.executable, "-m", "orchestrator", *map(str, arguments)]
    return subprocess.Popen(command, cwd=ROOT, env=os.environ | environment, stdout=PIPE, stderr=PIPE, text=True)


def call(*arguments: object, **environment: str) -> tuple[int, str, str]:
    """Such a process to its end -> (exit code, stdout, stderr)."""
    process = start(*arguments, **environment)
    out, err = process.communicate(timeout=1200)
    return process.returncode, out, err
