"""How one file of an archive meets the one that is here, what is taken over in which order, and what a collection leaves alone."""

import json
from pathlib import Path

import pytest

from orchestrator.files.documents import sealed
from orchestrator.ledger import layout
from orchestrator.ledger.results import Ledger
from orchestrator.ledger.run_lock import RunLock
from orchestrator.ledger.sweep_files import SweepFile
from orchestrator.lifecycle import garbage
from orchestrator.lifecycle.transfer import _compare
from tests.unit.history import append_history
from tests.unit.lifecycle.life import goes, put, tensors, tree

KEY = "ab" * 32
RUN = KEY[:16]
DECODE, SCORE = "cd" * 32, "ef" * 32


def finished(root: Path, steps: int = 3, bleu: float = 20.0, status: str = "done") -> Path:
    ledger = Ledger(root)
    ledger.write_spec(KEY, {"id": "a/b/c", "seed": 1})
    for step in range(1, steps + 1):
        append_history(ledger, KEY, {"step": step})
    ledger.write_train(KEY, {"status": status, "steps": steps})
    ledger.write_decode(KEY, DECODE, {}, ["a", "b"])
    ledger.write_record(KEY, "score", SCORE, {"bleu": bleu})
    return root


@pytest.fixture
def both(tmp_path):
    return finished(tmp_path / "theirs"), finished(tmp_path / "ours")


def merge(theirs: Path, ours: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {"add": [], "same": [], "differ": []}
    for name in tree(theirs):
        found[_compare(theirs, ours, name)].append(name)
    return found


def test_the_longer_history_stays_or_comes(both):
    theirs, ours = both
    append_history(Ledger(theirs), KEY, {"step": 4})
    assert merge(theirs, ours)["add"] == [f"{RUN}/history.jsonl"], "it goes on where ours ends"
    for _ in range(2):
        append_history(Ledger(ours), KEY, {"step": 4})
    assert (merge(theirs, ours)["add"], merge(theirs, ours)["differ"]) == ([], []), "ours goes on where theirs ends"
    append_history(Ledger(theirs), KEY, {"step": 9})
    assert merge(theirs, ours)["differ"] == [f"{RUN}/history.jsonl"]


def test_a_record_that_differs_is_a_conflict_and_a_damaged_one_is_replaced(both):
    theirs, ours = both
    score = f"{RUN}/score/{SCORE[:16]}.json"
    put(ours / score, json.dumps(sealed({"bleu": 30.0}, SCORE)))
    assert merge(theirs, ours)["differ"] == [score]
    put(ours / f"{RUN}/train.json", json.dumps(sealed({"status": "done", "steps": 9}, KEY)))
    assert merge(theirs, ours)["differ"] == [score, f"{RUN}/train.json"]
    for name in (score, f"{RUN}/train.json"):
        put(ours / name, "{")  # damaged: it counts as absent
    assert merge(theirs, ours)["differ"] == [] and merge(theirs, ours)["add"] == [score, f"{RUN}/train.json"]


def test_records_that_only_the_clock_changed_are_the_same(both):
    theirs, ours = both
    for root, seconds in zip(both, (1.0, 2.0), strict=True):
        ledger, found = (
            Ledger(root),
            {"chosen": 0, "tune": {"seeds": {"search": [9]}}, "trials": [{"number": 0, "seconds": seconds}], "time": seconds},
        )
        ledger.write_decode(KEY, DECODE, {"seconds": seconds}, ["a", "b"])
        for folder, record in (("tune", {"alpha": 1.0, "seconds": seconds}), ("search", found)):
            ledger.write_record(KEY, folder, DECODE, record)
    assert merge(theirs, ours)["differ"] == []
    ledger.write_record(KEY, "tune", DECODE, {"alpha": 0.5})
    ledger.write_record(KEY, "search", DECODE, found | {"chosen": 1})
    assert merge(theirs, ours)["differ"] == [f"{RUN}/{folder}/{DECODE[:16]}.json" for folder in ("search", "tune")]


@pytest.mark.parametrize("here", ["spec.yaml", "ckpt/step-00000001/manifest.json", "journal.jsonl", "train.json"])
def test_a_checkpoint_is_taken_where_ours_has_gone_nowhere(tmp_path, here):
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    for name in ("ckpt/step-00000003/manifest.json", "journal.jsonl"):
        put(theirs / RUN / name)
    put(ours / RUN / here)
    found = merge(theirs, ours)["add"]
    assert (f"{RUN}/ckpt/step-00000003/manifest.json" in found) is (here in ("spec.yaml", "journal.jsonl"))
    assert (f"{RUN}/journal.jsonl" in found) is (here == "spec.yaml")


@pytest.mark.parametrize(("status", "taken"), [(None, ""), ("stopped", ""), ("done", "history.jsonl train.json weights/best.json")])
def test_where_ours_has_begun_only_a_finished_run_is_taken(tmp_path, status, taken):
    theirs, ours = finished(tmp_path / "theirs", steps=4, status=status), finished(tmp_path / "ours")
    (ours / RUN / "train.json").unlink()
    for file in (theirs / RUN / "weights/best.json", ours / RUN / "weights/best.json", ours / RUN / "ckpt/step-00000003/manifest.json"):
        put(file, str(file))
    found = merge(theirs, ours)
    assert (found["differ"], found["add"]) == ([], [f"{RUN}/{name}" for name in taken.split()])


def test_sweeps_differ_where_one_row_has_two_keys(tmp_path):
    def sweep(name: str, **change) -> Path:
        row = {"id": "a/b/c", "seed": 1, "keys": {"train": KEY, "decode": DECODE, "score": SCORE}, "label": "x", "spec": {}} | change
        SweepFile.of(tmp_path / name, "s").write({"sweep_id": "s", "rows": [row]})
        return tmp_path / name

    ours = sweep("ours")
    assert _compare(ours, tmp_path / "absent", "sweeps/s.json") == "add"
    assert [_compare(sweep("same", **change), ours, "sweeps/s.json") for change in ({}, {"label": "y"})] == ["same", "same"]
    others = [{"keys": {"train": train, "score": score}} for train, score in ((KEY, KEY), (DECODE, SCORE))]
    assert [_compare(sweep("other", **change), ours, "sweeps/s.json") for change in others] == ["differ"] * 2


def test_decisions_of_asha_may_go_on_from_ours(tmp_path):
    def search(name: str, eta: int = 2, **rungs) -> Path:
        put(file := tmp_path / name / "sweeps/s.asha.json", json.dumps(sealed({"eta": eta, "rungs": rungs}, KEY)))
        return file.parents[1]

    ours = search("ours", first=["a", "b"], second=["a"])
    asked = {"add": {"first": ["a", "b", "c"], "second": ["a"]}, "same": {"first": ["a"]}, "differ": {"first": ["b", "a"], "second": ["a"]}}
    assert all(_compare(search("theirs", **rungs), ours, "sweeps/s.asha.json") == verdict for verdict, rungs in asked.items())
    assert _compare(search("theirs", eta=3, first=["a", "b"], second=["a"]), ours, "sweeps/s.asha.json") == "differ"
    put(ours / "sweeps/s.asha.json", "{")
    assert _compare(search("theirs", first=["b"]), ours, "sweeps/s.asha.json") == "add", "damaged here"


def test_a_record_comes_after_what_it_points_to_and_the_end_of_a_run_last():
    files = ("train.json", "score/a.json", "decode/a.json", "decode/a.txt", "weights/last.json", "weights/last-0.safetensors")
    names = [f"{RUN}/{name}" for name in files]
    order = [name.partition("/")[2] for name in sorted(names, key=layout.writing_order)]
    assert order[-2:] == ["score/a.json", "train.json"]
    assert order.index("decode/a.txt") < order.index("decode/a.json")
    assert order.index("weights/last-0.safetensors") < order.index("weights/last.json")


# ---------------------------------------------------------------- what a file of a ledger must be


def test_files_that_are_not_what_their_names_say(both):
    theirs, _ = both
    names = [path.relative_to(theirs).as_posix() for path in sorted(theirs.rglob("*")) if path.is_file()]

    def problems() -> list[str]:
        return [line.partition(": ")[0].partition("/")[2] for line in layout.problems_of(theirs, names)]

    assert problems() == []
    same_start = KEY[:16] + "0" * 48  # another run whose folder would be called so too
    for name, document in (
        (f"score/{SCORE[:16]}.json", sealed({"bleu": 1.0}, DECODE)),
        (f"score/{SCORE[:16]}.json", sealed({"bleu": 1.0, "train_key": DECODE}, SCORE)),
        (f"score/{SCORE[:16]}.json", sealed({"bleu": 1.0, "train_key": same_start}, SCORE)),
        (f"score/{SCORE[:16]}.json", sealed({"bleu": 1.0}, SCORE) | {"bleu": 2.0}),
        ("train.json", sealed({"status": "done"}, DECODE)),
    ):
        before = (theirs / RUN / name).read_bytes()
        put(theirs / RUN / name, json.dumps(document))
        assert name in problems(), document
        (theirs / RUN / name).write_bytes(before)


def test_what_is_carried_of_a_run(tmp_path):
    for status, resumable in (("done", False), ("diverged", False), ("stopped", True), ("failed", True)):
        root = finished(tmp_path / status, status=status)
        tensors(root / RUN)
        put(root / RUN / "journal.jsonl")
        found = {name.partition("/")[2] for name in layout.of_run(root / RUN)}
        left = {name.partition("/")[0] for name in tree(root / RUN).keys() - found}
        assert found and left == (set() if resumable else {"ckpt", "journal.jsonl"})


# ---------------------------------------------------------------- what a collection leaves alone


def test_commands_that_are_under_way_keep_their_folders(fake_results):
    root = fake_results.root
    fake_results.finished(fake_results.row("one"))
    for name in (".repro-77-0123abcd", ".import-77-0123abcd"):
        put(root / name / "x")
    with RunLock(root / ".repro-77-0123abcd" / "lock"), RunLock(root / garbage.LOCK):
        assert garbage.leftovers(root) == []
    assert {path.name for path in garbage.leftovers(root)} == {".repro-77-0123abcd", ".import-77-0123abcd"}


def test_every_scoring_of_a_row_must_be_there_before_its_weights_go(fake_results):
    other = "9" * 64
    row = fake_results.row("one", also={"valid": {"keys": {"train": None, "decode": None, "score": other}}})
    fake_results.finished(row)
    tensors(fake_results.run_dir(row))
    fake_results.sweep([row])
    run = fake_results.run_dir(row)
    score = run / "score" / f"{other[:16]}.json"

    def left() -> set[str]:
        return goes(garbage.collect(fake_results.root, weights=True), run)

    assert left() == {"ckpt"}
    put(score, json.dumps(sealed({"bleu": 1.0}, "8" * 64)))
    assert left() == {"ckpt"}, "a score of another key under this name"
    put(score, json.dumps(sealed({"bleu": 1.0}, other)))
    assert left() == {"ckpt", "weights", "snapshots"}
    assert goes(garbage.collect(fake_results.root), run) == {"ckpt"}, "not asked for"
    fake_results.sweep([row | {"also": {}, "keys": row["keys"] | {"decode": None, "score": None}}])
    assert left() == {"ckpt", "weights", "snapshots"}, "a trial of a search, which nothing scores"
