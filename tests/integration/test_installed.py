"""`pip install .` into an empty folder: the tables and the C sources are there, and a row runs to its end without a checkout."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
PACKAGES = ("orchestrator", "models", "search_spaces")


def files(root: Path) -> set[str]:
    found = (path.relative_to(root) for name in PACKAGES for path in (root / name).rglob("*") if path.is_file())
    return {path.as_posix() for path in found if "__pycache__" not in path.parts}


@pytest.fixture(scope="module")
def installed(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the wheel was installed. Built from a copy: pip leaves its build folder beside the sources."""
    place = tmp_path_factory.mktemp("installed")
    source, target = place / "source", place / "target"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(repository / name, source)
    for name in PACKAGES:
        shutil.copytree(repository / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    offline = ["--no-deps", "--no-index"]
    subprocess.run([*PIP, "wheel", *offline, "--no-build-isolation", "-w", str(place), str(source)], check=True, timeout=100)
    (wheel,) = place.glob("*.whl")
    subprocess.run([*PIP, "install", *offline, "--target", str(target), str(wheel)], check=True, timeout=100)
    shutil.rmtree(source)
    return target


def call(installed: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """In a folder and with a path from which the checkout cannot be imported."""
    environment = os.environ | {"PYTHONPATH": str(installed)}
    return subprocess.run([sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True, timeout=100)


@pytest.mark.slow
def test_an_installed_wheel_lists_tables_and_runs_a_row(installed: Path, repository: Path, tmp_path: Path) -> None:
    assert files(installed) == files(repository)
    found = call(installed, tmp_path, "-c", "import orchestrator, models; print(orchestrator.__file__); print(models.__file__)")
    assert all(Path(line).is_relative_to(installed) for line in found.stdout.splitlines()) and found.stdout, found

    tables = call(installed, tmp_path, "-m", "orchestrator", "list")
    assert tables.returncode == 0 and "quickstart/fusion" in tables.stdout and "dou2018/table1" in tables.stdout, tables

    options = ["--profile", "smoke", "--no-tracking", "--json"]
    made = call(installed, tmp_path, "-m", "orchestrator", "run", "quickstart/fusion/baseline", *options)
    assert made.returncode == 0, made
    assert json.loads(made.stdout)["status"] == "done"
    (capsule,) = tmp_path.glob("results/*/capsule.json")
    assert json.loads(capsule.read_text())["git_commit"] is None
