"""What a command loads: start-up stays as quick as what it has to do."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
HEAVY = ("torch", "ray", "mlflow", "pandas", "matplotlib", "numpy")


def loaded(code: str, folder: Path) -> set[str]:
    """Modules after `code` ran in a fresh process."""
    script = f"import sys\n{code}\nprint('\\n@' + ' '.join(sys.modules))"
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", script], cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return set(done.stdout.rpartition("@")[2].split())


@pytest.mark.parametrize("command", [["--help"], ["--version"], ["list"], ["list", "dou2018/table1"], ["run", "--help"], ["status"]])
def test_a_command_that_computes_nothing_loads_nothing_large(command: list[str], tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    assert not loaded(f"from orchestrator.cli.main import run\nassert run({command!r}) == 0", tmp_path) & set(HEAVY)


def test_show_needs_no_ray_and_no_tracking(tmp_path: Path) -> None:
    found = loaded("from orchestrator.cli.main import run\nassert run(['show', 'dou2018/table1/row9']) == 0", tmp_path)
    assert not found & {"ray", "mlflow", "pandas", "matplotlib", "torch._dynamo"}


def test_a_training_without_compilation_does_not_load_the_compiler(tmp_path: Path) -> None:
    command = ["run", "quickstart/fusion/baseline", "--profile", "smoke", "--no-tracking"]
    found = loaded(f"from orchestrator.cli.main import run\nassert run({command!r}) == 0", tmp_path)
    assert "torch" in found
    assert not found & {"torch._dynamo", "torch._inductor", "sympy", "ray", "mlflow", "pandas", "matplotlib"}


def test_one_row_is_found_without_reading_other_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    from orchestrator.specs import index, table_file

    read = []
    plain = table_file.read
    monkeypatch.setattr(table_file, "read", lambda path: read.append(path) or plain(path))
    assert index.find("dou2018/table1/row9").row == "row9"
    assert [path.name for path in read] == ["table1.yaml"]
