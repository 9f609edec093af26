"""A test that takes too long fails alone, and imports of large libraries do not count."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

TESTS = """\
import threading

def test_imports_slowly():
    import mlflow

def test_hangs():
    threading.Event().wait()

def test_comes_after():
    pass
"""


def test_a_timeout_fails_one_test_and_an_import_takes_none_of_its_time(tmp_path: Path, repository: Path) -> None:
    (tmp_path / "mlflow").mkdir()
    (tmp_path / "mlflow/__init__.py").write_text("import time\ntime.sleep(2)\n")
    (tmp_path / "test_three.py").write_text(TESTS)
    environment = os.environ | {"PYTHONPATH": f"{tmp_path}:{repository}"}
    settings = ["-c", str(repository / "pyproject.toml"), "--rootdir", str(tmp_path), "-p", "tests.conftest", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", *settings, "-q", "--timeout", "1", "test_three.py"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    failed = re.findall(r"^FAILED \S+::(\w+)", done.stdout, re.M)
    assert (failed, re.findall(r"\d passed", done.stdout)) == (["test_hangs"], ["2 passed"]), done.stdout + done.stderr
