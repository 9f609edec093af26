"""docs/results/mini.md is what `make docs` writes from the ledger that comes with the product."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
ROOT = Path(__file__).parents[2]


def test_its_tables_are_those_of_the_ledger(cli: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    makefile = (ROOT / "Makefile").read_text()
    (tables,) = re.findall(r"^MINI := (.*)$", makefile, re.MULTILINE)
    (command,) = re.findall(r"nmt-ablate (report \$\(MINI\) .*) --to docs/results/mini.md$", makefile, re.MULTILINE)
    code, _, err = cli(*shlex.split(command.replace("$(MINI)", tables)), "--cache-dir", tmp_path / "cache", "--to", tmp_path / "mini.md")
    assert code == 0, err
    made, kept = (
        [line for line in path.read_text().splitlines() if line.startswith(("|", "##", "**", "- **"))]
        for path in (tmp_path / "mini.md", ROOT / "docs/results/mini.md")
    )
    assert made == kept, "make docs writes it"
