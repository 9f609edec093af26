"""The index gives what the files give: at every moment, after any change, and whatever became of the index itself."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from orchestrator.ledger import index as module
from orchestrator.ledger.index import Index


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(module, "MIN_BYTES", 0)
    monkeypatch.setattr(module, "SETTLED", 0.0)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def values(root: Path, read: list[str] | None = None) -> dict[str, Any]:
    index = Index(root, "texts")

    def make(path: Path) -> str | None:
        if read is not None:
            read.append(path.name)
        return path.read_text() or None

    found = {path.name: index.of(path, lambda path=path: make(path)) for path in sorted(root.iterdir())}
    index.save()
    return found


def test_each_file_is_read_once(tmp_path: Path) -> None:
    root = tmp_path / "results"
    root.mkdir()
    for name in "abc":
        (root / name).write_text(name)
    (root / "empty").write_text("")
    read: list[str] = []
    assert values(root, read) == values(root, read) == {"a": "a", "b": "b", "c": "c", "empty": None}
    assert read == ["a", "b", "c", "empty", "empty"], "what has no value is read again"


def test_any_change_counts(tmp_path: Path) -> None:
    root = tmp_path / "results"
    root.mkdir()
    path = root / "a"
    path.write_text("one")
    values(root)
    before = path.stat()
    path.write_text("two")  # in place, of the same length and with the old time of modification
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert values(root) == {"a": "two"}
    other = root / ".new"
    other.write_text("six")
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    other.rename(path)
    assert values(root) == {"a": "six"}
    path.unlink()
    assert values(root) == {}


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"values": {}}'])
def test_a_damaged_index_is_made_again(tmp_path: Path, damage: str) -> None:
    root = tmp_path / "results"
    root.mkdir()
    (root / "a").write_text("one")
    values(root)
    (file,) = (tmp_path / "cache").rglob("*.json")
    file.write_text(damage)
    assert values(root) == {"a": "one"}
    module._code.cache_clear()


def test_other_code_reads_every_file_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "results"
    root.mkdir()
    (root / "a").write_text("one")
    read: list[str] = []
    values(root, read)
    monkeypatch.setattr(module, "_code", lambda: "other")
    values(root, read)
    assert read == ["a", "a"]


def test_a_file_that_was_just_written_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SETTLED", 60.0)
    root = tmp_path / "results"
    root.mkdir()
    (root / "a").write_text("one")
    read: list[str] = []
    values(root, read)
    values(root, read)
    os.utime(root / "a", (time.time() - 100, time.time() - 100))
    values(root, read)
    values(root, read)
    assert read == ["a", "a", "a"]
