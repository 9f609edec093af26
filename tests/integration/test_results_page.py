"""The pages of docs/results are what `make docs` writes from the ledger that comes with the product."""

import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from orchestrator.paths import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def _commands() -> dict[str, str]:
    """Page -> the command of `make docs` that writes it."""
    recipe = subprocess.run(["make", "--dry-run", "docs"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return {page: command for command, page in re.findall(r"nmt-ablate (report .*) --to (docs/results/\S+)$", recipe, re.MULTILINE)}


@pytest.mark.parametrize("page", _commands())
def test_its_tables_are_those_of_the_ledger(page: str, cli: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    name = Path(page).name
    code, _, err = cli(*shlex.split(_commands()[page]), "--cache-dir", tmp_path / "cache", "--to", tmp_path / name)
    assert code == 0, err
    others = tuple(stem for stem in (Path(other).stem for other in _commands()) if stem.startswith(f"{Path(page).stem}-"))
    kept = [path for path in sorted((ROOT / page).parent.glob(f"{Path(page).stem}*.md")) if not path.name.startswith(others)]
    assert [path.name for path in kept] == sorted(path.name for path in tmp_path.glob("*.md"))
    for path in kept:
        assert (tmp_path / path.name).read_text() == path.read_text(), "make docs writes it"
