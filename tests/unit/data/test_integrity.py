"""Prepared data are not believed: every file is held against its sha256, and a damaged corpus is prepared again from its source."""

import json
import os
from pathlib import Path

import pytest

from orchestrator.data import integrity
from orchestrator.data.prepare import prepare
from orchestrator.errors import UserError
from orchestrator.specs.schema import DataSpec, Subword
from tests.unit.conftest import refused

SPEC = DataSpec(corpus="tiny", subword=Subword(size=120))


@pytest.fixture
def ready(tiny, tmp_path):
    """The corpus `tiny`, prepared."""
    return prepare(SPEC, tiny, tmp_path / "cache")


def alter(path: Path) -> None:
    """Another last byte but one; size and time of change stay."""
    data, status = bytearray(path.read_bytes()), path.stat()
    data[-2] ^= 1
    path.write_bytes(bytes(data))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


READERS = {
    "train.src.npy": lambda p: p.pairs("train"),
    "train.tgt.npy": lambda p: p.pairs("train"),
    "train.src.offsets.npy": lambda p: p.pairs("train"),
    "valid.tgt.npy": lambda p: p.pairs("valid"),
    "test.src.txt": lambda p: p.sources("test"),
    "test.ref0.txt": lambda p: p.references("test"),
    "joint.vocab": lambda p: p.encode(["haus"]),
}


def test_an_altered_file_is_refused_by_name_when_it_is_opened(ready, tiny, tmp_path, monkeypatch):
    for name, read in READERS.items():
        monkeypatch.setattr(integrity, "_verified", {})
        good = (ready.path / name).read_bytes()
        alter(ready.path / name)
        (line,) = refused(lambda read=read: read(prepare(SPEC, tiny, tmp_path / "cache")))
        assert line.startswith(f"{ready.path / name}: is not as it was prepared (found sha256 "), line
        assert line.endswith(f"remove the folder {ready.path} and the next run prepares it again"), line
        (ready.path / name).write_bytes(good)
        read(prepare(SPEC, tiny, tmp_path / "cache"))


def test_damage_that_sizes_tell_is_mended(ready, tiny, tmp_path, capsys):
    path = ready.path / "test.ref0.txt"
    good = path.read_text()
    for damage in (lambda: path.write_text(good + "more\n"), path.unlink, lambda: (path.unlink(), os.mkfifo(path))):
        damage()
        prepare(SPEC, tiny, tmp_path / "cache").files.check(contents=True)
        assert path.read_text() == good
    err = capsys.readouterr().err.splitlines()
    assert len(err) == 3 and all(line.startswith(f"warning: {path}: is not as it was prepared (") for line in err), err
    assert [item.name for item in (tmp_path / "cache").iterdir() if item.is_dir()] == [ready.path.name], "nothing else stays"


def test_a_file_that_changes_later_is_read_again(ready):
    path = ready.path / "test.ref0.txt"
    ready.references("test")
    alter(path)
    os.utime(path, ns=(2, 2))
    with pytest.raises(UserError, match=r"test\.ref0\.txt"):
        ready.references("test")


def test_a_changed_description_of_the_store_is_mended(ready, tiny, tmp_path, capsys):
    """Sums and counts that were altered with the files: `about.json` has a sum of its own."""
    path = ready.path / "about.json"
    good = path.read_text()
    about = json.loads(good)
    about["sha256"]["test.ref0.txt"] = "0" * 64
    path.write_text(json.dumps(about))
    prepare(SPEC, tiny, tmp_path / "cache")
    assert path.read_text() == good and "about.json: its digest is not the one" in capsys.readouterr().err


def test_a_stray_table_of_used_pieces_is_refused(ready):
    (ready.path / "joint.used").write_text("[0, 1, 2, 3]")
    with pytest.raises(UserError, match=r"joint\.used: is not as it was prepared \(it was not written"):
        ready.encode(["haus"])
