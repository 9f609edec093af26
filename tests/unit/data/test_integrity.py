"""Prepared data are not believed: every file is held against its sha256, and a damaged corpus is prepared again from its source."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from orchestrator.cli.main import run
from orchestrator.data import build, integrity
from orchestrator.data import prepare as module
from orchestrator.data.prepare import manifest, prepare
from orchestrator.errors import UserError
from orchestrator.specs.schema import DataSpec, Subword

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
        with pytest.raises(UserError) as caught:
            read(prepare(SPEC, tiny, tmp_path / "cache"))
        (line,) = caught.value.lines
        assert line.startswith(f"{ready.path / name}: is not as it was prepared (found sha256 "), line
        assert line.endswith(f"remove the folder {ready.path} and the next run prepares it again"), line
        (ready.path / name).write_bytes(good)
        read(prepare(SPEC, tiny, tmp_path / "cache"))


def test_damage_that_sizes_tell_is_mended(ready, tiny, tmp_path, capsys):
    path = ready.path / "test.ref0.txt"
    good = path.read_text()
    for damage in (lambda: path.write_text(good + "more\n"), path.unlink, lambda: (path.unlink(), os.mkfifo(path))):
        damage()
        prepare(SPEC, tiny, tmp_path / "cache").files.verify_all()
        assert path.read_text() == good
    err = capsys.readouterr().err.splitlines()
    assert len(err) == 2 and all(line.startswith(f"warning: {path}: is not as it was prepared (found ") for line in err), err
    assert [item.name for item in (tmp_path / "cache").iterdir() if item.is_dir()] == [ready.path.name], "nothing else stays"


def test_the_way_out_that_is_told_works(ready, tiny, tmp_path):
    alter(ready.path / "test.ref0.txt")
    with pytest.raises(UserError):
        ready.references("test")
    shutil.rmtree(ready.path)
    assert prepare(SPEC, tiny, tmp_path / "cache").references("test") == [(tiny / "tiny" / "test.b").read_text().splitlines()]


def test_each_file_is_hashed_once_a_process_unless_it_changes(ready, tiny, tmp_path, monkeypatch):
    hashed = []
    original = integrity.sha256_of
    monkeypatch.setattr(integrity, "_verified", {})
    monkeypatch.setattr(integrity, "sha256_of", lambda path: (hashed.append(path.name), original(path))[1])
    for _ in range(3):
        again = prepare(SPEC, tiny, tmp_path / "cache")
        again.pairs("train"), again.references("test"), again.references("test"), again.files.verify_all()
    assert sorted(hashed) == sorted(ready.files.sizes)
    path = ready.path / "test.ref0.txt"
    os.utime(path, ns=(1, 1))
    again.references("test")
    assert hashed[-1] == path.name and len(hashed) == len(ready.files.sizes) + 1, "another time of change: it is read again"
    alter(path)
    os.utime(path, ns=(2, 2))
    with pytest.raises(UserError, match=r"test\.ref0\.txt"):
        again.references("test")


def test_a_changed_description_of_the_store_is_mended(ready, tiny, tmp_path, capsys):
    """Sums and counts that were altered with the files: `about.json` has a sum of its own."""
    path = ready.path / "about.json"
    good = path.read_text()
    about = json.loads(good)
    about["sha256"]["test.ref0.txt"] = "0" * 64
    path.write_text(json.dumps(about))
    prepare(SPEC, tiny, tmp_path / "cache")
    assert path.read_text() == good and "about.json: is not as it was prepared" in capsys.readouterr().err


def test_a_store_of_an_earlier_version_is_prepared_again(ready, tiny, tmp_path, monkeypatch):
    path = ready.path / "about.json"
    about = {name: value for name, value in json.loads(path.read_text()).items() if name not in ("sha256", "about_sha256")}
    path.write_text(json.dumps(about))
    alter(ready.path / "train.src.npy")
    built = []
    monkeypatch.setattr(module, "build", lambda *args, **options: (built.append(1), build.build(*args, **options))[1])
    again = prepare(SPEC, tiny, tmp_path / "cache")
    again.files.verify_all()
    assert built == [1] and manifest(SPEC, tiny) == again.manifest


def test_a_stray_table_of_used_pieces_is_refused(ready):
    (ready.path / "joint.used").write_text("[0, 1, 2, 3]")
    with pytest.raises(UserError, match=r"joint\.used: is not as it was prepared \(it was not written"):
        ready.encode(["haus"])


ROW = "quickstart/fusion/baseline"
SMALL = ["--profile", "smoke", "--no-tracking", "--set", "train.max_steps=2"]


def test_a_run_prepares_altered_references_and_arrays_again(tmp_path, capsys, monkeypatch):
    options = [*SMALL, "--cache-dir", str(tmp_path / "cache"), "--results", str(tmp_path / "results")]
    assert run(["data", "prepare", ROW, "--profile", "smoke", "--cache-dir", str(tmp_path / "cache")]) == 0
    (folder,) = (path for path in (tmp_path / "cache").iterdir() if path.is_dir())
    good = {path.name: path.read_bytes() for path in folder.iterdir()}
    for seed, name in enumerate(("test.ref0.txt", "train.tgt.npy"), 1):
        monkeypatch.setattr(integrity, "_verified", {})
        alter(folder / name)
        capsys.readouterr()
        assert run(["run", ROW, "--seed", str(seed), *options]) == 0
        assert f"warning: {folder / name}: is not as it was prepared (found sha256 " in capsys.readouterr().err
        assert {path.name: path.read_bytes() for path in folder.iterdir()} == good
