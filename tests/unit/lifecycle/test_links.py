"""An import into a results folder whose run, or a part of it, is a symbolic link: refused, and nothing is written beyond."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orchestrator.errors import UserError
from orchestrator.files.documents import sealed
from orchestrator.lifecycle.transfer import export_ledger, import_ledger
from tests.unit.lifecycle.life import put

KEY, SCORE = "a" * 64, "b" * 64
RUN = KEY[:16]


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    put(tmp_path / "from" / RUN / "train.json", json.dumps(sealed({"status": "done", "steps": 1}, KEY)))
    put(tmp_path / "from" / RUN / "score" / f"{SCORE[:16]}.json", json.dumps(sealed({"bleu": 1.0, "train_key": KEY}, SCORE)))
    export_ledger(tmp_path / "from", tmp_path / "a.tar")
    return tmp_path / "a.tar"


@pytest.mark.parametrize("place", [RUN, f"{RUN}/score", f"{RUN}/train.json"])
def test_a_link_is_refused(archive: Path, tmp_path: Path, place: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    link = tmp_path / "to" / place
    link.parent.mkdir(parents=True)
    link.symlink_to(outside / "train.json" if place.endswith(".json") else outside)
    with pytest.raises(UserError, match=f"{place}: found a symbolic link; .*nothing was imported") as caught:
        import_ledger(archive, tmp_path / "to")
    assert len(caught.value.lines) == 1
    assert list(outside.iterdir()) == [] and link.is_symlink()
    assert sorted(path.name for path in (tmp_path / "to").iterdir() if not path.name.startswith(".")) == [RUN]


def test_a_results_folder_may_itself_be_a_link(archive: Path, tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "to").symlink_to(tmp_path / "disk")
    assert import_ledger(archive, tmp_path / "to").added == [RUN]
