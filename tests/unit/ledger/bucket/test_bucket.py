"""The ledger in a bucket, against an object store in memory that has conditional writes: what is seen is whole, and one process has it."""

import os
import shutil
import time
from datetime import timedelta
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch

pytest.importorskip("obstore", reason="the extra `s3` is not installed")

from orchestrator.errors import FencedError, LockedError, RemoteError, UserError
from orchestrator.ledger import object_store
from orchestrator.ledger.bucket import attach, lease
from orchestrator.ledger.bucket.bucket import Bucket
from orchestrator.ledger.layout import claim_of, group_of
from orchestrator.ledger.results import Ledger
from orchestrator.ledger.run_files import Store
from orchestrator.report import noise_floor, sessions
from orchestrator.report.effects import Effect
from orchestrator.report.judgement import Judgement
from orchestrator.report.looks import Looks, read
from orchestrator.scoring.significance.verdicts import Verdict
from orchestrator.specs.claims import RowClaim
from tests.unit.conftest import refused
from tests.unit.ledger.bucket.conftest import KEY, RUN, TENSORS, URL, Machines, elsewhere, finished, lock_of, stopped, train


def test_another_machine_sees_the_records_and_fetches_tensors_when_asked(machines: Machines) -> None:
    finished(machines)
    other = machines.machine("two")
    other.pull_all()
    assert Ledger(other.root).read_train(KEY) == {"key": KEY, "status": "done", "steps": 3}
    assert not list(other.root.rglob("*.safetensors"))
    store = Store(other.root / RUN, KEY)
    assert torch.equal(store.weights("last")["w"], TENSORS["w"])
    latest = store.latest(lambda path, why: pytest.fail(why), repair=True)
    assert latest is not None and latest.step == 3
    assert len(list(other.root.rglob("*.safetensors"))) == 2


def test_a_pruned_checkpoint_is_gone_from_the_bucket_too(machines: Machines) -> None:
    finished(machines)
    steps = {name.split("/ckpt/")[1].split("/")[0] for name in machines.objects() if "/ckpt/" in name}
    assert steps == {"step-00000002", "step-00000003"}


def test_wrong_bytes_are_refused(machines: Machines) -> None:
    finished(machines)
    (name,) = [name for name in machines.objects() if "/weights/last-" in name]
    machines.store.put(name, b"other bytes")
    other = machines.machine("two")
    other.pull_all()
    assert "sha256" in refused(Store(other.root / RUN, KEY).weights, "last")[0]


def test_a_second_process_is_refused_by_name_and_a_silent_one_is_followed(machines: Machines, monkeypatch) -> None:
    first = machines.machine("one")
    lock = lock_of(first).acquire()
    train(first, lock, steps=2)
    second = elsewhere(machines, monkeypatch)
    with pytest.raises(LockedError, match=rf"{URL}/{RUN}: locked by process {os.getpid()} on .* \(epoch 1\)"):
        lock_of(second).acquire()
    monkeypatch.setattr(lease, "LEASE", timedelta(-1))
    silent = stopped(lock)
    silent.publish()
    with lock_of(second) as newer:
        assert newer._lease.claim["epoch"] == 2
        before = machines.objects()
        (first.root / RUN / "history.jsonl").write_text("{}\n")
        with pytest.raises(FencedError, match="epoch 1 is over, now process"):
            silent.publish()  # the first owner wakes up too late
        assert machines.claim()["epoch"] == 2 and machines.objects() == before
        with pytest.raises(FencedError):
            lock.check()
        assert Ledger(second.root).read_train(KEY) is not None, "the second owner continues from what was uploaded"
    lock.release()


def test_a_released_group_is_free(machines: Machines, monkeypatch) -> None:
    lock_of(machines.machine("one")).acquire().release()
    with lock_of(elsewhere(machines, monkeypatch)) as two:
        assert two._lease.claim["epoch"] == 2, "at once: nobody waits for a claim that was given up"


@pytest.mark.parametrize("upload", [1, 2, 3, 6, 9])
def test_killed_during_an_upload_no_record_is_seen_without_what_it_names(machines: Machines, monkeypatch, upload: int) -> None:
    mirror = machines.machine("one")
    lock = lock_of(mirror).acquire()
    silent = stopped(lock)
    train(mirror, lock)
    put, puts = mirror.bucket.put, iter(range(1, 100))

    def killed(name: str, content: bytes) -> str:
        if next(puts) == upload:
            raise RuntimeError("killed")
        return put(name, content)

    monkeypatch.setattr(mirror.bucket, "put", killed)
    with pytest.raises(RuntimeError, match="killed"):
        silent.publish()
    monkeypatch.setattr(lease, "LEASE", timedelta(-1))
    other = elsewhere(machines, monkeypatch)
    with lock_of(other):
        assert Ledger(other.root).read_train(KEY) is None
        latest = Store(other.root / RUN, KEY).latest(lambda path, why: pytest.fail(why), repair=False)
        assert latest is None or latest.step in (2, 3)
        if (store := Store(other.root / RUN, KEY)).has_weights():
            store.weights("last")
    lock._lease = None
    lock.release()


def test_another_owner_s_state_replaces_what_was_not_uploaded_here(machines: Machines, monkeypatch) -> None:
    first = machines.machine("one")
    lock = lock_of(first).acquire()
    train(first, lock, steps=1)
    silent = stopped(lock)
    silent.publish()
    (first.root / RUN / "history.jsonl").write_text('{"here": 1}\n')
    lock._lease, lock._token = None, ""
    lock.release()  # killed
    (first.root / RUN / "lock.json").unlink()
    monkeypatch.setattr(lease, "LEASE", timedelta(-1))
    second = elsewhere(machines, monkeypatch)
    with lock_of(second) as newer:
        train(second, newer)
    machines.machine("one").pull_all()
    assert Ledger(first.root).read_train(KEY) == {"key": KEY, "status": "done", "steps": 3}
    assert not (first.root / RUN / "history.jsonl").exists()


def test_a_file_that_a_user_removed_here_comes_back(machines: Machines) -> None:
    finished(machines)
    mirror = machines.machine("one")
    before = machines.objects()
    shutil.rmtree(mirror.root / RUN)
    with lock_of(mirror):
        assert Ledger(mirror.root).read_train(KEY) is not None
    assert machines.objects() == before


def test_a_server_that_is_away_does_not_stop_the_training(machines: Machines, capsys) -> None:
    mirror = machines.machine("one")
    quick = Bucket(URL, None, machines)  # a claim does not wait as long as an upload
    etag = quick.put_if(claim_of("sweeps/x"), b"{}", None)
    assert [meta["e_tag"] for meta in (lease.read(quick, "sweeps/x")[1], *quick.list())] == [etag] * 2
    quick.delete(claim_of("sweeps/x"))
    lock = lock_of(mirror).acquire()
    machines.down = True
    train(mirror, lock)
    with pytest.raises(RemoteError, match=f"not published: {RUN}; the same command publishes it later"):
        lock.release()
    assert "connection refused" in capsys.readouterr().err
    machines.down = False
    object_store.push(mirror.root)
    assert not machines.claim()["held"] and f"{RUN}/train.json" in machines.objects()


def test_what_a_killed_process_left_here_is_published_by_the_next_one(machines: Machines, monkeypatch) -> None:
    mirror = machines.machine("one")
    lock = lock_of(mirror).acquire()
    stopped(lock)
    train(mirror, lock)
    lock._lease, lock._token = None, ""
    lock.release()  # as a kill does: the claim still says that it is held
    again = machines.machine("one")
    again.pull_all()
    assert Ledger(again.root).read_train(KEY) is not None  # nothing older came over it
    object_store.push(again.root)
    assert not machines.claim()["held"] and f"{RUN}/train.json" in machines.objects()


def test_a_renewal_whose_answer_was_lost_counts(machines: Machines, monkeypatch) -> None:
    mirror = machines.machine("one")
    with lock_of(mirror) as lock:
        held, put_if = stopped(lock), mirror.bucket.put_if

        def lost(name: str, content: bytes, etag: str | None) -> str:
            put_if(name, content, etag)
            raise RemoteError("timed out")

        with monkeypatch.context() as patch:
            patch.setattr(mirror.bucket, "put_if", lost)
            held.beat()
        held.beat()
        assert machines.claim() == held.claim


@pytest.mark.parametrize("slow", ["download", "upload"])
def test_a_slow_transfer_does_not_let_the_claim_expire(machines: Machines, monkeypatch, slow: str) -> None:
    monkeypatch.setattr(lease, "BEAT", 0.01)
    mirror, beats = machines.machine("one"), list[int]()

    def transfer(*_, **__) -> None:
        deadline = time.monotonic() + 10
        beats.append(machines.claim()["beat"])
        while machines.claim()["beat"] < beats[0] + 3 and time.monotonic() < deadline:
            time.sleep(0.01)
        beats.append(machines.claim()["beat"])

    monkeypatch.setattr(mirror, slow, transfer)
    with lock_of(mirror):
        assert beats[1] >= beats[0] + 3


def test_a_server_without_conditions_is_refused(machines: Machines, monkeypatch) -> None:
    mirror = machines.machine("one")
    monkeypatch.setattr(mirror.bucket, "put_if", lambda name, content, etag: "etag")
    assert "ignores If-None-Match or If-Match" in refused(lock_of(mirror).acquire)[0]


@pytest.mark.parametrize("url", ["ftp://host/x", "s3:///x", "s3://AKIAKEY:geheim@bucket/x", "s3://bucket/../x"])
def test_bad_urls_are_one_line_without_secrets(url: str) -> None:
    with pytest.raises(UserError, match="expected ") as error:
        attach.place(url)
    (line,) = error.value.lines
    assert "geheim" not in line and "AKIAKEY" not in line


def test_without_the_extra_one_line_says_what_to_install(monkeypatch, tmp_path) -> None:
    monkeypatch.setitem(__import__("sys").modules, "obstore.store", None)
    monkeypatch.setenv("NMT_SCRATCH", str(tmp_path))
    assert "needs the package obstore; expected pip install '.[s3]' in the checkout" in refused(attach.place, URL)[0]


def test_a_machine_without_credentials_is_told_which_are_missing(machines: Machines, monkeypatch) -> None:
    said = "Generic S3 error: Error performing PUT http://169.254.169.254/latest/api/token in 1s: error sending request"
    monkeypatch.setattr(machines, "get", Mock(side_effect=RuntimeError(said)), raising=False)
    with pytest.raises(RemoteError, match=r"expected AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment$"):
        machines.machine("one").bucket.get("a")


def test_the_scratch_copy_is_not_a_results_folder(machines: Machines) -> None:
    root = machines.machine("one").root
    (root / ".remote" / "url").write_text(URL + "\n")
    assert f"is the scratch copy of {URL}; expected that URL" in refused(attach.place, root)[0]
    assert attach.place("file:///some/folder") == Path("/some/folder")


def test_a_damaged_claim_is_one_line(machines: Machines) -> None:
    finished(machines)
    machines.store.put(f"{RUN}/lock.json", b'{"held": true')
    with pytest.raises(RemoteError, match=f"{RUN}/lock.json: is no claim of this program"):
        machines.machine("two").pull_all()


def test_names_of_groups() -> None:
    found = {f"{RUN}/lock": RUN, "sweeps/a.b.lock": "sweeps/a.b", ".lifecycle.lock": None, "mlflow.lock": None, "mlflow.db": None}
    found |= {"looks.json": "looks", "looks.lock": "looks", "sessions/a.jsonl": "sessions/a", "sessions/a.lock.json": "sessions/a"}
    found |= {f"sweeps/a.{end}": "sweeps/a" for end in ("asha.json", "stop", "json", "lock.json")} | {f"{RUN}/ckpt/step-00000001": RUN}
    found |= {f"speed/{RUN}.json": f"speed/{RUN}", f"noise/{RUN}.lock.json": f"noise/{RUN}", "noise/other.json": None}
    assert {name: group_of(name) for name in found} == found
    assert claim_of(RUN) == f"{RUN}/lock.json" and claim_of("sweeps/a") == "sweeps/a.lock.json"


def test_looks_sessions_and_noise_floors_of_two_machines_are_kept(machines: Machines) -> None:
    """Each machine adds its look without having fetched the other's."""
    for second, (name, claim) in enumerate((("one", "a"), ("two", "b"), ("two", "a"))):
        found = Looks(Ledger(machines.machine(name).root))
        found.new[claim] = {"time": f"2026-01-01T00:00:0{second}", "runs": {"r": claim + name}, "planned": None}
        found.save()
    effect = Effect("r", "b", "bleu", 1.0, (2, 2), runs=(frozenset("r"), frozenset("b")))
    judged = Judgement(RowClaim("r", "b", 0.5, "bleu"), True, True, Verdict("open", ""), (effect,), raw=0.5)
    two = Ledger(machines.machine("two").root)
    sessions.join(two.root, "loop", [judged])
    noise_floor.save(two, {"family": "f"})
    one = machines.machine("one")
    one.pull_all()
    assert {claim: len(each) for claim, each in read(one.root).items()} == {"a": 2, "b": 1}
    assert len(sessions.read(one.root / "sessions" / "loop.jsonl")) == 1
    assert [found["family"] for found in Ledger(one.root).documents("noise")] == ["f"], "verdicts read it"
