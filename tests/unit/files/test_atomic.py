import errno
import json
import resource
import signal

import pytest

from orchestrator.files import atomic, documents

POINTS = ("pre_write", "pre_fsync", "pre_rename", "post_rename")


@pytest.mark.parametrize("point", POINTS)
def test_killed_at_each_point_old_or_new(tmp_path, forked, point):
    path = tmp_path / "value.json"
    atomic.write_json(path, {"value": 1})
    assert forked(lambda: atomic.write_json(path, {"value": 2}, points="result", step=5), f"result_{point}@5:kill") == -signal.SIGKILL
    assert json.loads(path.read_text()) == {"value": 2 if point == "post_rename" else 1}
    atomic.remove_temporary(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["value.json"]


@pytest.mark.parametrize("point", POINTS[:3])
def test_disk_full_leaves_the_old_content_alone(tmp_path, monkeypatch, point):
    path = tmp_path / "value.json"
    atomic.write_json(path, {"value": 1})
    monkeypatch.setenv("NMT_FAULT", f"result_{point}:enospc")
    with pytest.raises(OSError) as caught:
        atomic.write_json(path, {"value": 2}, points="result")
    assert caught.value.errno == errno.ENOSPC and caught.value.filename == str(path) and "bytes" in str(caught.value)
    assert json.loads(path.read_text()) == {"value": 1} and len(list(tmp_path.iterdir())) == 1


def test_file_size_limit(tmp_path, forked):
    path = tmp_path / "big"
    path.write_bytes(b"old")

    def work() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        with pytest.raises(OSError, match="big") as caught:
            atomic.write_bytes(path, bytes(5000))
        assert caught.value.errno == errno.EFBIG

    assert forked(work) == 0
    assert path.read_bytes() == b"old" and len(list(tmp_path.iterdir())) == 1


def test_link_in_the_way_is_replaced_not_followed(tmp_path):
    (tmp_path / "victim").write_bytes(b"safe")
    (tmp_path / "value").symlink_to(tmp_path / "victim")
    atomic.write_bytes(tmp_path / "value", b"new")
    assert (tmp_path / "victim").read_bytes() == b"safe" and not (tmp_path / "value").is_symlink()


def test_json_refuses_nan(tmp_path):
    with pytest.raises(ValueError):
        atomic.write_json(tmp_path / "value", float("nan"))
    assert not list(tmp_path.iterdir())


def test_a_document_that_was_changed_counts_as_absent_and_is_told(tmp_path, capsys):
    path, key = tmp_path / "floor.json", "ab" * 32
    assert documents.read_or_tell(path) is None and capsys.readouterr().err == ""
    documents.write_document(path, {"sd": 0.25}, key)
    assert documents.read_or_tell(path) == {"key": key, "sd": 0.25}
    path.write_text(path.read_text().replace("0.25", "0.05"))
    assert documents.read_or_tell(path) is None
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"warning: {path}: its digest is not the one of its content")
