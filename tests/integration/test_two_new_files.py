"""CONTRIBUTING to the letter: its examples, each a new file in a copy of the tree, and no other file is edited."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.paths import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
TREE = ("benchmarks", "models", "orchestrator", "search_spaces", "tests", "pyproject.toml")
FILES = ("models/aggregations/gated.py", "models/connections/mixed.py", "search_spaces/mine/gates.yaml")
NEW = "gated or mixed or mine"
GENERIC = ("tests/specs/test_shipped.py", "tests/unit/models/test_every_variant.py", "tests/unit/models/test_inference.py")
GENERIC += ("tests/unit/models/test_depth.py", "tests/unit/specs/test_components.py", "tests/integration/test_smoke_matrix.py")
WHOLE = ("tests/specs/test_papers.py", "tests/unit/ledger/test_key_rules.py")
"""Tests that list what there is."""


def examples() -> dict[str, str]:
    """File -> the block of code that shows it."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    return {name: re.search(rf"`{name}`.*?```\w+\n(.*?)```", text, re.DOTALL)[1] for name in FILES}  # type: ignore[index]


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    copy = tmp_path_factory.mktemp("tree")
    for name in TREE:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, copy / name)
    for name, code in examples().items():
        (copy / name).parent.mkdir(exist_ok=True)
        (copy / name).write_text(code, encoding="utf-8")
    return copy


def call(tree: Path, *command: str) -> str:
    environment = os.environ | {"PYTHONPATH": str(tree), "XDG_CACHE_HOME": str(tree / ".cache")}
    done = subprocess.run([sys.executable, "-m", *command], cwd=tree, env=environment, capture_output=True, text=True, timeout=800)
    assert done.returncode == 0, f"{command}:\n{done.stdout[-6000:]}\n{done.stderr[-3000:]}"
    return done.stdout


def test_the_examples_are_in_the_style_of_the_code(tree: Path) -> None:
    gated = examples()[FILES[0]]
    assert gated[gated.index("@") :] in (ROOT / "README.md").read_text(encoding="utf-8"), "README shows another class"
    code = [name for name in FILES if name.endswith(".py")]
    call(tree, "ruff", "check", *code)
    call(tree, "ruff", "format", "--check", *code)
    assert "Success" in call(tree, "mypy", "--no-incremental", "--follow-imports=silent", *code)


def test_the_generic_tests_find_them_and_pass(tree: Path) -> None:
    """The rows train and their table prints, too: test_smoke_matrix."""
    found = call(tree, "pytest", "-q", "-p", "no:cacheprovider", "-k", NEW, *GENERIC)
    assert int(re.findall(r"(\d+) passed", found)[-1]) > 30
    call(tree, "pytest", "-q", "-p", "no:cacheprovider", *WHOLE)


def test_commands_tell_of_them(tree: Path) -> None:
    assert "Eq. 5" in call(tree, "orchestrator", "describe", "gated") and "mine/gates" in call(tree, "orchestrator", "list")
