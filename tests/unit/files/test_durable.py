"""What a power cut leaves: content is on the disk before the name that shows it, and the name before the call returns."""

import os
from contextlib import closing
from pathlib import Path

import pytest
import torch

from orchestrator.errors import FencedError
from orchestrator.files import atomic
from orchestrator.files.json_lines import Journal
from orchestrator.ledger.results import Ledger
from orchestrator.ledger.run_files import Store
from orchestrator.lifecycle import transfer

KEY = "ab" * 32
DECODE, SCORE = "cd" * 32, "ef" * 32


class Disk(list):
    """Events in order: ("sync", path, bytes that it had then), ("rename", from, to)."""

    def synced(self, path: Path, before: int) -> int:
        """Bytes that `path` had when it was last synced before event `before`; -1: it never was."""
        return next((event[2] for event in reversed(self[:before]) if event[:2] == ("sync", path)), -1)

    def renamed(self, target: Path) -> int:
        """Number of the event that gave `target` its name."""
        (found,) = [number for number, event in enumerate(self) if event[0] == "rename" and event[2] == target]
        return found

    def holds(self, target: Path) -> None:
        """`target` is durable: its content was synced under its temporary name, then it was renamed, then its folder was synced."""
        number = self.renamed(target)
        assert self.synced(self[number][1], number) == target.stat().st_size, f"{target.name} had its name first"
        assert ("sync", target.parent) in [event[:2] for event in self[number:]], f"the name {target.name} is not on the disk"


@pytest.fixture
def disk(monkeypatch):
    events, real_fsync, real_rename, real_replace = Disk(), os.fsync, os.rename, os.replace

    def fsync(descriptor):
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        events.append(("sync", path, os.fstat(descriptor).st_size))
        real_fsync(descriptor)

    def rename(source, target, real=real_rename, **options):
        events.append(("rename", Path(source), Path(target)))
        real(source, target, **options)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "rename", rename)
    monkeypatch.setattr(os, "replace", lambda source, target, **options: rename(source, target, real_replace, **options))
    return events


def test_a_file_is_on_the_disk_before_its_name_and_its_name_before_the_call_returns(tmp_path, disk):
    for write in (
        lambda path: atomic.write_bytes(path, b"x" * 100_000),
        lambda path: atomic.write_text(path, "short"),
        lambda path: atomic.write_json(path, {"value": 1}),
    ):
        disk.clear()
        write(tmp_path / "file")
        assert [event[0] for event in disk] == ["sync", "rename", "sync"]
        disk.holds(tmp_path / "file")


def test_a_checkpoint_is_on_the_disk_before_its_name(tmp_path, disk):
    folder = tmp_path / "run" / "ckpt"
    for step in (1, 2):
        disk.clear()
        path = Store(folder.parent, KEY).save(step, {"model": {"w": torch.ones(9)}, "optimizer": {"m": torch.ones(9)}}, {"step": step})
        number = disk.renamed(path)
        tmp = disk[number][1]
        for name in ("model.safetensors", "optimizer.safetensors", "state.json", "manifest.json"):
            assert disk.synced(tmp / name, number) == (path / name).stat().st_size, name
        assert disk.synced(tmp, number) >= 0, "the names in the generation"
        after = [event[1] for event in disk[number:] if event[0] == "sync"]
        assert folder in after
        assert (folder.parent in after) is (step == 1), "the new folder of checkpoints has a name too"


def test_weights_are_on_the_disk_before_the_record_that_shows_them(tmp_path, disk):
    weights = {"w": torch.ones(9)}
    store = Store(tmp_path, KEY)
    slot, snapshot = store.save_weights("best", weights, 1), store.save_snapshot(10, weights, 3)
    for tensors, record in ((slot, tmp_path / "weights" / "best.json"), (snapshot, snapshot.with_suffix(".json"))):
        disk.holds(tensors)
        disk.holds(record)
        assert disk.renamed(tensors) < disk.renamed(record)
        assert ("sync", tensors.parent) in [event[:2] for event in disk[disk.renamed(tensors) : disk.renamed(record)]]


def test_a_journals_line_is_not_waited_for(tmp_path, disk):
    with closing(Journal(tmp_path / "journal.jsonl")) as journal:
        journal.step(1)
    assert disk == []


def test_every_record_of_the_ledger_is_on_the_disk_when_its_write_returns(tmp_path, disk):
    ledger = Ledger(tmp_path)
    run = ledger.run_dir(KEY)
    for write, names in (
        (lambda: ledger.write_spec(KEY, {"id": "a"}), ["spec.yaml"]),
        (lambda: ledger.write_capsule(KEY, {"python": "3"}), ["capsule.json"]),
        (lambda: ledger.write_rung(KEY, 5, {"nll": 1.0}), ["rungs/5.json"]),
        (lambda: ledger.write_train(KEY, {"status": "done"}), ["train.json"]),
        (lambda: ledger.write_decode(KEY, DECODE, {}, ["a"]), [f"decode/{DECODE[:16]}.txt", f"decode/{DECODE[:16]}.json"]),
        (lambda: ledger.write_record(KEY, "score", SCORE, {"bleu": 1.0}), [f"score/{SCORE[:16]}.json"]),
        (lambda: ledger.write_record(KEY, "tune", SCORE, {"alpha": 1.0}), [f"tune/{SCORE[:16]}.json"]),
    ):
        disk.clear()
        write()
        for name in names:
            disk.holds(run / name)
        assert [disk.renamed(run / name) for name in names] == sorted(disk.renamed(run / name) for name in names)


def test_what_an_import_copies_is_on_the_disk(tmp_path, monkeypatch):
    ledger, synced = Ledger(tmp_path / "results"), dict[str, bytes]()
    ledger.write_train(KEY, {"status": "done"})
    name = f"{KEY[:16]}/train.json"
    monkeypatch.setattr(os, "sync", lambda: synced.update({name: (tmp_path / "target" / name).read_bytes()}))
    transfer._copy(ledger.root, tmp_path / "target")
    assert synced[name] == (ledger.root / name).read_bytes()


class Lock:
    """Held at the first `looks`, fenced off at the next."""

    def __init__(self, looks):
        self.looks = looks

    def check(self):
        self.looks -= 1
        if self.looks < 0:
            raise FencedError("over")


def test_each_write_looks_again_just_before_its_rename(tmp_path):
    """An owner that is fenced off between its first look and the rename writes nothing."""
    for looks, write in (
        (0, lambda ledger: ledger.write_spec(KEY, {"id": "a"})),
        (0, lambda ledger: ledger.write_decode(KEY, DECODE, {}, ["a"])),
        (1, lambda ledger: ledger.write_capsule(KEY, {"python": "3"})),
        (1, lambda ledger: ledger.write_rung(KEY, 5, {"nll": 1.0})),
        (1, lambda ledger: ledger.write_train(KEY, {"status": "done"})),
        (1, lambda ledger: ledger.write_record(KEY, "score", SCORE, {"bleu": 1.0})),
    ):
        with pytest.raises(FencedError):
            write(Ledger(tmp_path, lock=Lock(looks)))
    weights = {"w": torch.ones(1)}
    for looks in (0, 1):  # at the tensors, and at the record that shows them
        with pytest.raises(FencedError):
            Store(tmp_path, KEY, Lock(looks)).save_weights("best", weights, 1)
        with pytest.raises(FencedError):
            Store(tmp_path, KEY, Lock(looks)).save_snapshot(5, weights, 2)
        assert bool(list(tmp_path.rglob("*.safetensors"))) is (looks == 1)
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and path.suffix != ".safetensors"]
