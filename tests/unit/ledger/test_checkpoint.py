import errno
import os
import random
import signal

import pytest
import torch

from orchestrator.errors import FencedError
from orchestrator.ledger.run_files import Store
from orchestrator.ledger.run_lock import RunLock
from orchestrator.ledger.weights import CorruptError, read_manifest, weights_sha256
from tests.unit.conftest import refused

KEY = "ab" * 32
POINTS = ("pre_write", "pre_fsync", "pre_rename", "post_rename", "pre_delete", "post_delete")


def tensors(step: int) -> dict[str, dict[str, torch.Tensor]]:
    generator = torch.Generator().manual_seed(step)
    weight = torch.randn(5, 3, generator=generator)
    moments = {"weight.exp_avg": torch.randn(5, 3, generator=generator), "step": torch.tensor(float(step))}
    return {"model": {"weight": weight, "tied": weight, "half": weight[:2].bfloat16()}, "optimizer": moments}


def save(directory, step, lock=None):
    return Store(directory.parent, KEY, lock).save(step, tensors(step), {"step": step, "rate": 0.1, "best": None})


def latest(directory, on_bad=None, key=KEY, repair=True):
    return Store(directory.parent, key).latest(Bad() if on_bad is None else on_bad, repair=repair)


def steps(directory) -> list[int]:
    return [*Store(directory.parent, KEY).generations()]


def assert_holds(found, step):
    assert found.step == step and found.state == {"step": step, "rate": 0.1, "best": None}
    for group, named in tensors(step).items():
        assert set(found.tensors[group]) == set(named)
        for name, tensor in named.items():
            assert torch.equal(found.tensors[group][name], tensor) and found.tensors[group][name].dtype == tensor.dtype


@pytest.fixture
def ckpt(tmp_path):
    """Generations 20 and 40."""
    save(tmp_path / "ckpt", 20)
    save(tmp_path / "ckpt", 40)
    return tmp_path / "ckpt"


class Bad(list):
    def __call__(self, path, reason):
        assert "\n" not in reason
        self.append((path.name, reason))


def test_round_trip_and_two_kept(ckpt):
    save(ckpt, 60)
    assert steps(ckpt) == [40, 60]
    assert_holds(latest(ckpt), 60)
    assert sorted(p.name for p in ckpt.iterdir()) == ["step-00000040", "step-00000060"]


def test_same_bytes_for_same_tensors(ckpt, tmp_path):
    save(tmp_path / "again" / "ckpt", 40)
    for path in (ckpt / "step-00000040").iterdir():
        assert path.read_bytes() == (tmp_path / "again" / "ckpt" / "step-00000040" / path.name).read_bytes()


@pytest.mark.parametrize("point", POINTS)
def test_killed_at_each_point(ckpt, forked, point):
    assert forked(lambda: save(ckpt, 60), f"ckpt_{point}@60:kill") == -signal.SIGKILL
    done = point in ("post_rename", "pre_delete", "post_delete")
    bad = Bad()
    assert_holds(latest(ckpt, bad), 60 if done else 40)
    assert bad == [] and not [p for p in ckpt.iterdir() if "tmp" in p.name]
    save(ckpt, 60)
    save(ckpt, 80)
    assert steps(ckpt) == [60, 80] and len(list(ckpt.iterdir())) == 2


@pytest.mark.parametrize("point", POINTS[:3])
def test_disk_full_keeps_the_old(ckpt, monkeypatch, point):
    monkeypatch.setenv("NMT_FAULT", f"ckpt_{point}@60:enospc")
    with pytest.raises(OSError, match="step-0000006") as caught:
        save(ckpt, 60)
    assert caught.value.errno == errno.ENOSPC
    assert steps(ckpt) == [20, 40] and len(list(ckpt.iterdir())) == 2
    assert_holds(latest(ckpt), 40)


FILES = ("model.safetensors", "optimizer.safetensors", "state.json", "manifest.json")


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("share", [0, 0.5, 1])
def test_truncated_falls_back(ckpt, name, share):
    path = ckpt / "step-00000040" / name
    size = path.stat().st_size
    os.truncate(path, min(int(size * share), size - 1))
    bad = Bad()
    assert_holds(latest(ckpt, bad), 20)
    assert [name for name, _ in bad] == ["step-00000040"]


@pytest.mark.parametrize("name", FILES)
def test_one_flipped_bit_falls_back(ckpt, name):
    path, chance = ckpt / "step-00000040" / name, random.Random(name)
    whole = path.read_bytes()
    for _ in range(25):
        damaged = bytearray(whole)
        damaged[chance.randrange(len(whole))] ^= 1 << chance.randrange(8)
        path.write_bytes(damaged)
        bad = Bad()
        assert_holds(latest(ckpt, bad, repair=False), 20)
        assert len(bad) == 1
    path.write_bytes(whole)
    assert_holds(latest(ckpt), 40)


def test_files_of_another_generation_are_noticed(ckpt):
    (ckpt / "step-00000020" / "model.safetensors").replace(ckpt / "step-00000040" / "model.safetensors")
    assert latest(ckpt, bad := Bad()) is None and len(bad) == 2


def test_renamed_generation_is_noticed(ckpt):
    (ckpt / "step-00000040").rename(ckpt / "step-00000050")
    assert_holds(latest(ckpt, bad := Bad()), 20)
    assert "step 40" in bad[0][1]


def test_bad_generation_never_counts_as_kept(ckpt):
    """After a fall-back to 20 the steps are done again; the bad 40 takes nobody's place and goes when a good one is there."""
    os.truncate(ckpt / "step-00000040" / "state.json", 3)
    latest(ckpt)
    assert sorted(p.name for p in ckpt.iterdir()) == ["bad-step-00000040", "step-00000020"]
    save(ckpt, 30)
    assert sorted(p.name for p in ckpt.iterdir()) == ["step-00000020", "step-00000030"]


def test_an_earlier_step_drops_the_later_ones(ckpt):
    """Whoever saves 30 has gone on from 20: 40 belongs to a lost timeline and must not be resumed from."""
    save(ckpt, 30)
    assert steps(ckpt) == [20, 30]
    assert_holds(latest(ckpt), 30)


def test_saving_a_step_again_replaces_it(ckpt):
    Store(ckpt.parent, KEY).save(40, {"model": {"w": torch.zeros(1)}}, {"again": True})
    assert latest(ckpt).state == {"again": True} and steps(ckpt) == [20, 40]


def test_reader_without_the_lock_changes_nothing(ckpt):
    (ckpt / ".step-00000060.1-0.tmp").mkdir()
    os.truncate(ckpt / "step-00000040" / "state.json", 3)
    before = sorted(p.name for p in ckpt.iterdir())
    assert_holds(latest(ckpt, repair=False), 20)
    assert sorted(p.name for p in ckpt.iterdir()) == before


def test_another_runs_checkpoint_is_an_error(ckpt):
    assert "abababababababab, expected cdcd" in refused(latest, ckpt, key="cd" * 32)[0]
    assert steps(ckpt) == [20, 40]


def test_stale_owner_writes_nothing(ckpt, tmp_path):
    stale = RunLock(tmp_path / "lock", "row").acquire()
    RunLock(tmp_path / "lock", "row").acquire()
    for write in (
        lambda: save(ckpt, 60, lock=stale),
        lambda: Store(tmp_path, KEY, stale).save_snapshot(1, {"w": torch.zeros(1)}, 2),
        lambda: Store(tmp_path, KEY, stale).save_weights("best", {"w": torch.zeros(1)}, 1),
    ):
        with pytest.raises(FencedError):
            write()
    assert steps(ckpt) == [20, 40] and len(list(ckpt.iterdir())) == 2
    assert not list((tmp_path / "snapshots").iterdir()) and not list((tmp_path / "weights").iterdir())


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path, KEY)


def snapshot(store, step):
    return store.save_snapshot(step, {"w": torch.full((2,), float(step))}, 3)


def snapshot_steps(store) -> list[int]:
    return [int(path.stem.removeprefix("step-")) for path in store.snapshots()]


def test_last_snapshots_are_kept(store):
    for step in range(10, 60, 10):
        path = snapshot(store, step)
    assert snapshot_steps(store) == [30, 40, 50] and len(list(store.snapshots()[0].parent.iterdir())) == 6
    assert torch.equal(store.load_snapshot(path)["w"], torch.full((2,), 50.0))
    snapshot(store, 40)  # resumed from before 40
    snapshot(store, 50)
    assert snapshot_steps(store) == [30, 40, 50]


def test_killed_while_replacing_a_snapshot(store, forked):
    snapshot(store, 10)
    other = {"w": torch.zeros(2)}
    work = lambda: store.save_snapshot(10, other, 3)  # noqa: E731
    assert forked(work, "snapshot_post_rename:kill") == -signal.SIGKILL
    assert store.snapshots() == []
    assert torch.equal(store.load_snapshot(work())["w"], other["w"])


def test_damaged_snapshot_and_slot(store):
    path = snapshot(store, 10)
    slot = store.save_weights("best", {"w": torch.ones(2)}, 1)
    for file in (path, slot):
        data = bytearray(file.read_bytes())
        data[-1] ^= 1
        file.write_bytes(data)
    with pytest.raises(CorruptError):
        store.load_snapshot(path)
    assert "sha256 differs" in refused(store.weights, "best")[0]


def test_weights_of_another_run(store, tmp_path):
    path = snapshot(store, 10)
    store.save_weights("best", {"w": torch.ones(2)}, 1)
    assert "expected 0000" in refused(Store(tmp_path, "00" * 32).load_snapshot, path)[0]
    assert "expected 0000" in refused(Store(tmp_path, "00" * 32).weights, "best")[0]


@pytest.mark.parametrize(
    "point", [f"{p}_{s}" for p in ("weights", "weights_manifest") for s in ("pre_write", "pre_fsync", "pre_rename", "post_rename")]
)
def test_slot_changes_with_its_record_or_not_at_all(store, tmp_path, forked, point):
    def save(value: int) -> None:
        store.save_weights("best", {"w": torch.full((2,), float(value))}, value)

    assert "no best weights" in refused(store.weights, "best")[0]
    save(1)
    assert forked(lambda: save(2), f"{point}:kill") == -signal.SIGKILL
    step = read_manifest(tmp_path / "weights" / "best.json", KEY)["meta"]["step"]
    assert step == (2 if point == "weights_manifest_post_rename" else 1)
    assert torch.equal(store.weights("best")["w"], torch.full((2,), float(step)))
    save(3)
    assert len(list((tmp_path / "weights").iterdir())) == 2


def test_weights_sha256():
    base = {"a": torch.arange(4.0), "b": torch.tensor(1.0)}
    assert weights_sha256(base) == weights_sha256(dict(reversed(base.items())))
    strided, plain = ({"a": a} for a in (torch.arange(8.0)[::2], torch.tensor([0.0, 2.0, 4.0, 6.0])))
    assert weights_sha256(strided) == weights_sha256(plain)
    others = (
        {"a": torch.arange(4.0), "c": torch.tensor(1.0)},
        {"a": torch.arange(4.0).reshape(2, 2), "b": torch.tensor(1.0)},
        {"a": torch.arange(4.0).view(torch.int32), "b": torch.tensor(1.0)},
        {"a": torch.nextafter(torch.arange(4.0), torch.tensor(9.0)), "b": torch.tensor(1.0)},
        {"a": torch.arange(4.0)},
    )
    assert len({weights_sha256(one) for one in (base, *others)}) == 6
