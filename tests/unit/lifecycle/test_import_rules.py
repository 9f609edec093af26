"""An import that must not be: a sweep that asks for other rows or runs here, tensors that are not their manifest's, a disk that is full."""

import io
import json
import tarfile
import tracemalloc
from pathlib import Path

import pytest

from orchestrator.errors import LockedError, UserError
from orchestrator.files import documents
from orchestrator.ledger.results import Ledger
from orchestrator.ledger.run_lock import RunLock
from orchestrator.lifecycle.transfer import export_ledger, import_ledger
from tests.unit.lifecycle.life import put, tree

KEYS = {"mine": "ab" * 32, "other": "cd" * 32}


def sweep(root: Path, name: str, seed: int = 1, full: str | None = None) -> None:
    row = {"id": f"a/b/{name}", "seed": seed, "keys": {"train": KEYS[name], "decode": None, "score": None}, "spec": {}}
    put(root / "sweeps" / f"{name}.json", json.dumps({"sweep_id": name, "name": full, "rows": [row]}))


@pytest.fixture
def archived(tmp_path):
    """An archive of two runs, each of a sweep of its own."""
    root = tmp_path / "theirs"
    for name, key in KEYS.items():
        Ledger(root).write_train(key, {"status": "done", "steps": 3})
        sweep(root, name)
    export_ledger(root, tmp_path / "all.tar")
    return tmp_path / "all.tar"


def test_a_sweep_that_asks_for_other_rows_here_is_refused_or_kept(archived, tmp_path):
    ours = tmp_path / "ours"
    sweep(ours, "mine", seed=2)
    before = tree(ours)
    with pytest.raises(UserError, match=r"sweeps/mine\.json: differs here"):
        import_ledger(archived, ours)
    assert tree(ours) == before
    assert import_ledger(archived, ours, conflicts="keep").sweeps == ["other"]
    assert json.loads((ours / "sweeps/mine.json").read_text())["rows"][0]["seed"] == 2


def test_json_of_too_many_values_is_refused_before_it_is_parsed(archived, tmp_path):
    text = b'{"files": [' + b"[]," * (documents.MOST_VALUES // 2) + b"[]]}"
    info = tarfile.TarInfo("manifest.json")
    info.size = len(text)
    with tarfile.open(tmp_path / "many.tar", "w") as tar:
        tar.addfile(info, io.BytesIO(text))
    tracemalloc.start()
    try:
        with pytest.raises(UserError, match="has no manifest"):
            import_ledger(tmp_path / "many.tar", tmp_path / "ours")
        assert tracemalloc.get_traced_memory()[1] < 10 * len(text)
    finally:
        tracemalloc.stop()


def test_a_signal_leaves_nothing_of_an_import_or_export(archived, tmp_path, forked):
    def until_the_signal(call):
        with pytest.raises(KeyboardInterrupt):
            call()

    ours = tmp_path / "ours"
    ours.mkdir()
    for point, call in (
        ("import_member", lambda: import_ledger(archived, ours)),
        ("archive_member", lambda: export_ledger(tmp_path / "theirs", tmp_path / "new.tar")),
    ):
        before = tree(tmp_path)
        assert forked(lambda call=call: until_the_signal(call), f"{point}:term") == 0
        assert tree(tmp_path) == before


def test_a_sweep_that_runs_here_is_left_alone(archived, tmp_path):
    ours = tmp_path / "ours"
    with RunLock(ours / "sweeps" / "mine.lock"):
        before = tree(ours)
        with pytest.raises(LockedError, match=r"sweeps/mine\.json: process .* is at work"):
            import_ledger(archived, ours)
        assert tree(ours) == before


def test_only_what_the_named_sweeps_hold_and_nobody_works_at_is_exported(tmp_path, archived):
    root = tmp_path / "theirs"
    manifest, live = export_ledger(root, tmp_path / "mine.tar", only=["mine"])
    assert set(manifest["files"]) == {f"{KEYS['mine'][:16]}/train.json", "sweeps/mine.json"} and live == []
    with RunLock(root / KEYS["mine"][:16] / "lock"):
        manifest, live = export_ledger(root, tmp_path / "rest.tar")
    assert live == [KEYS["mine"][:16]] and not [name for name in manifest["files"] if name.startswith(KEYS["mine"][:16])]


def test_a_named_sweep_brings_all_its_parts(tmp_path, archived):
    root = tmp_path / "theirs"
    for name, part in (("mine", "search"), ("other", "tuned")):
        sweep(root, name, full=f"a/b:{part}")
    for number, asked in enumerate(("mine", "other", "a/b")):
        manifest, _ = export_ledger(root, tmp_path / f"{number}.tar", only=[asked])
        assert manifest["runs"] == 2 and {"sweeps/mine.json", "sweeps/other.json"} <= set(manifest["files"])
