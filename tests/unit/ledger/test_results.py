import hashlib
import json
import os
import signal

import pytest

from orchestrator.files.documents import sealed, unsealed
from orchestrator.ledger import packing
from orchestrator.ledger.results import Ledger
from tests.unit.conftest import refused
from tests.unit.history import append_history, publish

TRAIN, OTHER, DECODE, SCORE, TUNE = (hashlib.sha256(name).hexdigest() for name in (b"train", b"other", b"decode", b"score", b"tune"))
DONE = {"status": "done", "steps": 100, "valid": {"nll": 2.5}, "reason": "", "weights_sha256": "a" * 64}
TEXTS = ["ein haus .", "", "line\u2028separator\rkept", "=cmd"]


class Bad(list):
    def __call__(self, path, reason):
        assert "\n" not in reason
        self.append(path.name)


@pytest.fixture
def bad():
    return Bad()


@pytest.fixture
def ledger(tmp_path, bad):
    return Ledger(tmp_path / "results", on_bad=bad)


def fill(ledger: Ledger) -> None:
    ledger.write_spec(TRAIN, {"id": "a/b/c", "spec": {"optim": {"eps": 1e-9}, "language": "no"}})
    ledger.write_capsule(TRAIN, {"python": "3.11"})
    ledger.write_rung(TRAIN, 50, {"nll": 3.0})
    append_history(ledger, TRAIN, {"step": 50, "nll": 3.0})
    ledger.write_train(TRAIN, DONE)
    ledger.write_decode(TRAIN, DECODE, {"seconds": 1.0, "tokens": [["a"]]}, TEXTS)
    ledger.write_record(TRAIN, "tune", TUNE, {"alpha": 1.0})
    ledger.write_record(TRAIN, "score", SCORE, {"bleu": 41.5, "decode_key": DECODE})


def check(ledger: Ledger) -> None:
    assert ledger.read_train(TRAIN) == DONE | {"key": TRAIN}
    decoded = ledger.read_decode(TRAIN, DECODE)
    assert decoded["hypotheses"] == TEXTS and decoded["tokens"] == [["a"]] and decoded["key"] == DECODE and decoded["lines"] == 4
    assert ledger.record(TRAIN, "score", SCORE) == {"key": SCORE, "train_key": TRAIN, "decode_key": DECODE, "bleu": 41.5}
    assert ledger.records(TRAIN, "tune") == [ledger.record(TRAIN, "tune", TUNE)] == [{"key": TUNE, "train_key": TRAIN, "alpha": 1.0}]
    assert ledger.read_rungs(TRAIN) == {50: {"key": TRAIN, "step": 50, "nll": 3.0}}
    assert ledger.read_capsule(TRAIN) == {"key": TRAIN, "python": "3.11"}
    assert unsealed(ledger.read_spec(TRAIN)) == {"key": TRAIN, "id": "a/b/c", "spec": {"optim": {"eps": 1e-9}, "language": "no"}}
    assert ledger.history(TRAIN) == [{"step": 50, "nll": 3.0}]
    assert [record["key"] for record in ledger.records(TRAIN, "decode")] == [DECODE]
    assert [record["bleu"] for record in ledger.records(TRAIN, "score")] == [41.5]


def files(ledger: Ledger) -> dict[str, int]:
    return {str(path.relative_to(ledger.root)): path.stat().st_mtime_ns for path in ledger.root.rglob("*") if path.is_file()}


def test_empty(ledger):
    assert ledger.read_train(TRAIN) is None and ledger.read_decode(TRAIN, DECODE) is None and ledger.record(TRAIN, "score", SCORE) is None
    assert ledger.read_rungs(TRAIN) == {} and ledger.history(TRAIN) == [] and ledger.runs() == [] and ledger.read_spec(TRAIN) is None
    assert not ledger.root.exists()


def test_round_trip_and_layout(ledger):
    fill(ledger)
    check(ledger)
    run = TRAIN[:16]
    names = {"train.json", "capsule.json", "spec.yaml", "history.jsonl", "rungs/50.json"}
    names |= {f"score/{SCORE[:16]}.json", f"tune/{TUNE[:16]}.json"}
    assert set(files(ledger)) == {f"{run}/{name}" for name in names | {f"decode/{DECODE[:16]}.{suffix}" for suffix in ("json", "txt")}}
    assert json.loads((ledger.run_dir(TRAIN) / "train.json").read_text())["key"] == TRAIN
    assert ledger.runs() == [TRAIN]


def test_writing_again_touches_nothing(ledger):
    fill(ledger)
    (ledger.run_dir(TRAIN) / "history.jsonl").unlink()
    before = files(ledger)
    fill(ledger)
    (ledger.run_dir(TRAIN) / "history.jsonl").unlink()
    assert files(ledger) == before


def test_an_acknowledged_rung_stays(ledger):
    for step, seconds in ((50, 1.0), (50, 9.0), (200, 5.0), (100, 5.0)):
        ledger.write_rung(TRAIN, step, {"nll": 3.0, "seconds": seconds})
    assert [(step, rung["seconds"]) for step, rung in ledger.read_rungs(TRAIN).items()] == [(50, 1.0), (100, 5.0), (200, 5.0)]


POINTS = ("pre_write", "pre_fsync", "pre_rename", "post_rename")


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("kind", ["train", "rung", "score", "tune", "capsule", "spec", "decode", "hypotheses"])
def test_killed_at_each_point(ledger, forked, bad, kind, point):
    assert forked(lambda: fill(ledger), f"{kind}_{point}:kill") == -signal.SIGKILL
    present = {
        "train": ledger.read_train(TRAIN), "rung": ledger.read_rungs(TRAIN).get(50), "score": ledger.record(TRAIN, "score", SCORE),
        "tune": ledger.record(TRAIN, "tune", TUNE), "capsule": ledger.read_capsule(TRAIN), "spec": ledger.read_spec(TRAIN),
        "decode": ledger.read_decode(TRAIN, DECODE), "hypotheses": None,
    }[kind]  # fmt: skip
    assert (present is not None) == (point == "post_rename" and kind != "hypotheses")
    ledger.remove_temporary(TRAIN)
    assert not [name for name in files(ledger) if "tmp" in name]
    fill(ledger)
    assert bad == []
    assert ledger.read_train(TRAIN) == DONE | {"key": TRAIN} and ledger.read_decode(TRAIN, DECODE)["hypotheses"] == TEXTS


@pytest.mark.parametrize("content", ["", "{", "[]", "null", '{"key": 1', "\x00", "9" * 5000])
def test_damaged_record_is_told_and_absent(ledger, bad, content):
    fill(ledger)
    path = ledger.run_dir(TRAIN) / "train.json"
    path.write_text(content)
    before = files(ledger)
    for reader in (ledger, Ledger(ledger.root, on_bad=bad)):
        assert reader.read_train(TRAIN) is None and reader.read_train(TRAIN) is None
        assert reader.runs() == [TRAIN]
    assert bad == ["train.json"] * 2 and files(ledger) == before, "each reader tells it once, and none changes anything"
    fill(ledger)
    assert ledger.read_train(TRAIN)["status"] == "done" and path.with_name("train.json.corrupt").read_text() == content


@pytest.mark.parametrize("level", ["[", "{a: ", "- ", "? "])
def test_deep_nesting_does_not_reach_the_parser(ledger, bad, level):
    fill(ledger)
    (ledger.run_dir(TRAIN) / "spec.yaml").write_text(level * 200_000)  # libyaml ends the process
    assert ledger.read_spec(TRAIN) is None and bad == ["spec.yaml"]


@pytest.mark.parametrize("put", [os.mkdir, os.mkfifo, lambda path: path.symlink_to("nowhere")], ids=["folder", "FIFO", "dead link"])
@pytest.mark.parametrize("name", ["train.json", "spec.yaml", "rungs/50.json", f"score/{SCORE[:16]}.json", f"decode/{DECODE[:16]}.txt"])
def test_what_is_no_file_is_told_and_written_again(ledger, bad, name, put):
    fill(ledger)
    path = ledger.run_dir(TRAIN) / name
    path.unlink()
    put(path)
    ledger.read_train(TRAIN), ledger.read_capsule(TRAIN), ledger.read_spec(TRAIN), ledger.read_rungs(TRAIN), ledger.records(TRAIN, "score")
    ledger.read_decode(TRAIN, DECODE)
    assert bad == [path.name] and not path.is_file()
    assert ledger.decoding_is_damaged(TRAIN, DECODE) == name.startswith("decode")
    fill(ledger)
    check(ledger)


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("score", {"bleu": "99"}), ("score", {"bleu": 1e308}), ("score", {"bleu": None}), ("train", {"status": "finished"}),
        ("train", {"params": -1}), ("train", {"steps": "4"}), ("train", {"tokens_per_second": -3.5}), ("train", {"params": 1e308}),
    ],
)  # fmt: skip
def test_impossible_figures_are_damage(ledger, bad, kind, change):
    """Although the digest is right."""
    ledger.write_train(TRAIN, DONE)
    ledger.write_record(TRAIN, "score", SCORE, {"bleu": 35.0})
    assert ledger.record(TRAIN, "score", SCORE) is not None and bad == []
    path = next(ledger.root.rglob("train.json" if kind == "train" else f"{kind}/*.json"))
    record = json.loads(path.read_text()) | change
    path.write_text(json.dumps(sealed(record, record["key"])))
    ledger.read_train(TRAIN), ledger.records(TRAIN, "score")
    assert bad == [path.name]


def test_a_record_needs_its_digest(ledger, bad):
    fill(ledger)
    for path in ledger.root.rglob("*.json"):
        path.write_text(json.dumps(unsealed(json.loads(path.read_text()))))
    assert ledger.read_train(TRAIN) is ledger.read_capsule(TRAIN) is ledger.read_decode(TRAIN, DECODE) is None
    assert ledger.records(TRAIN, "score") == ledger.records(TRAIN, "tune") == [] and ledger.read_rungs(TRAIN) == {}
    assert len(bad) == 6


@pytest.mark.parametrize(
    "damage", [lambda p: p.unlink(), lambda p: p.write_bytes(p.read_bytes()[:-1]), lambda p: p.write_bytes(b"other\n" * 4)]
)
def test_damaged_hypotheses(ledger, bad, damage):
    fill(ledger)
    damage(ledger.run_dir(TRAIN) / "decode" / f"{DECODE[:16]}.txt")
    assert ledger.read_decode(TRAIN, DECODE) is None and len(bad) == 1
    fill(ledger)
    assert ledger.read_decode(TRAIN, DECODE)["hypotheses"] == TEXTS


def test_another_key_inside_is_an_error(ledger):
    fill(ledger)
    ledger.run_dir(TRAIN).rename(ledger.run_dir(OTHER))
    assert OTHER in refused(ledger.read_train, OTHER)[0] and OTHER in refused(ledger.write_train, OTHER, DONE)[0]
    assert ledger.runs() == []
    with pytest.raises(ValueError):
        ledger.write_train(TRAIN, {"key": OTHER})


@pytest.mark.parametrize("key", ["", "../x", "abc", TRAIN.upper(), TRAIN + "0", "/" * 64])
def test_what_is_no_key_makes_no_path(ledger, key):
    of_a_run = (lambda k: ledger.record(TRAIN, "score", k), lambda k: ledger.write_decode(TRAIN, k, {}, []))
    for call in (ledger.run_dir, ledger.read_train, *of_a_run):
        with pytest.raises(ValueError):
            call(key)


@pytest.mark.parametrize(("tokens", "written"), [(TEXTS, False), (["ein", "", "", ""], True)])
def test_tokens_equal_to_the_texts_are_written_once(ledger, tokens, written):
    ledger.write_decode(TRAIN, DECODE, {"tokens": tokens}, TEXTS)
    (path,) = (ledger.run_dir(TRAIN) / "decode").glob("*.json")
    assert ("tokens" in json.loads(path.read_text())) == written
    found = ledger.read_decode(TRAIN, DECODE)
    assert found["tokens"] == tokens and found["hypotheses"] == TEXTS


def test_foreign_files_are_passed_over(ledger, bad):
    fill(ledger)
    within = [f"{TRAIN[:16]}/{name}" for name in ("score/mine.json", "rungs/x.json", "decode/.hidden")]
    for name in ("README.md", "0123456789abcdef", "notes/x.json", *within):
        path = ledger.root / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("not ours")
    (ledger.root / "fedcba9876543210").mkdir()
    assert ledger.runs() == [TRAIN]
    check(ledger)
    assert bad == []


def test_history_after_a_crash(ledger):
    for step, nll in ((10, 4.0), (20, 3.0), (30, 2.0), (20, 3.5)):
        append_history(ledger, TRAIN, {"step": step, "nll": nll})
    append_history(ledger, TRAIN, {"step": 20, "valid": 1.0})
    with (ledger.run_dir(TRAIN) / "history.jsonl").open("a") as file:
        file.write('{"step": 40, "nl')
    assert ledger.history(TRAIN) == [{"step": 10, "nll": 4.0}, {"step": 20, "nll": 3.5, "valid": 1.0}, {"step": 30, "nll": 2.0}]
    append_history(ledger, TRAIN, {"step": 40})
    assert ledger.history(TRAIN)[-1] == {"step": 40}


def test_mirror(ledger, tmp_path, bad):
    fill(ledger)
    run = ledger.run_dir(TRAIN)
    for name in ("lock", "lock.json", "journal.jsonl", "ckpt", "weights"):
        (run / name).touch()
    dest = tmp_path / "docs" / "ledger"
    publish(ledger, TRAIN, dest)
    packing.write([dest / TRAIN[:16]], tmp_path / "packed")
    exported = {path.name for path in (dest / TRAIN[:16]).rglob("*") if path.is_file()}
    records = {f"{DECODE[:16]}.json", f"{DECODE[:16]}.txt", f"{SCORE[:16]}.json", f"{TUNE[:16]}.json"}
    assert exported == {"train.json", "capsule.json", "spec.yaml", "history.jsonl", "50.json"} | records
    reader = Ledger(tmp_path / "empty", [dest], on_bad=bad)
    check(reader)
    assert reader.runs() == [TRAIN]
    before = (dest / TRAIN[:16] / "train.json").read_bytes()
    reader.write_train(TRAIN, {"status": "failed"})
    assert reader.read_train(TRAIN)["status"] == "failed" and (dest / TRAIN[:16] / "train.json").read_bytes() == before
    assert reader.runs() == [TRAIN], "once, though two places have it"
    assert reader.record(TRAIN, "score", SCORE) is not None
    both = Ledger(tmp_path / "own", [tmp_path / "packed"], on_bad=bad)
    assert both.read_rungs(TRAIN) and both.records(TRAIN, "score")
    for each in (reader, ledger, both):
        each.write_train(TRAIN, DONE | {"weights_sha256": "b" * 64})
        assert not any(each.records(TRAIN, kind) for kind in ("decode", "score", "tune")), "those of other weights"
    assert not both.read_rungs(TRAIN)
    assert (run / "score.corrupt" / f"{SCORE[:16]}.json").exists()


def test_a_record_without_its_texts(ledger, tmp_path, bad):
    fill(ledger)
    dest = tmp_path / "ledger"
    publish(ledger, TRAIN, dest, texts=False)
    reader = Ledger(dest, on_bad=bad)
    record = reader.record(TRAIN, "decode", DECODE)
    assert reader.read_decode(TRAIN, DECODE) is None and not list(dest.rglob("*.txt")) and not bad
    assert record["seconds"] == 1.0 and "tokens" not in record
    assert record["hypotheses_sha256"] == ledger.record(TRAIN, "decode", DECODE)["hypotheses_sha256"]


def test_damaged_mirror_is_left_as_it_is(ledger, tmp_path, bad):
    fill(ledger)
    dest = tmp_path / "mirror"
    publish(ledger, TRAIN, dest)
    path = dest / TRAIN[:16] / "train.json"
    path.write_text("{")
    assert Ledger(tmp_path / "empty", [dest], on_bad=bad).read_train(TRAIN) is None
    assert path.read_text() == "{" and bad == ["train.json"]
    assert Ledger(ledger.root, [dest], on_bad=bad).read_train(TRAIN)["status"] == "done"


def test_damaged_reports_are_named(tmp_path, capsys):
    path = tmp_path / TRAIN[:16] / "history.jsonl"
    path.parent.mkdir()
    path.write_text('{"step": 1, "a": 1}\n{"st\n{"step": 2}\n{"step": 1, "b": 2}\n{"step": 3')
    ledger = Ledger(tmp_path)
    assert ledger.history(TRAIN) == [{"step": 1, "a": 1, "b": 2}, {"step": 2}] and len(ledger.reports(TRAIN)) == 3
    told = capsys.readouterr().err
    assert told == f"warning: {path}: found no JSON object in 1 of 4 lines; passed over\n", "the last line is being written"
