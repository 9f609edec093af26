"""Sweeps that ask for other rows here. An import that must not be: of a sweep that runs here, damaged tensors, a full disk."""

import json
from pathlib import Path

import pytest

from orchestrator.errors import LockedError
from orchestrator.files import documents
from orchestrator.ledger import sweep_files, weights
from orchestrator.ledger.results import Ledger
from orchestrator.ledger.run_lock import RunLock
from orchestrator.lifecycle import garbage
from orchestrator.lifecycle.transfer import export_packed, import_ledger
from tests.unit.conftest import refused
from tests.unit.lifecycle.life import put, tree

KEYS = {"mine": "ab" * 32, "other": "cd" * 32}


def sweep(root: Path, name: str, seed: int = 1, full: str | None = None, key: str = "", **more) -> None:
    row = {"id": f"a/b/{name}", "seed": seed, "keys": {"train": key or KEYS[name], "decode": None, "score": None}, "spec": {}}
    sweep_files.SweepFile.of(root, name).write({"sweep_id": name, "name": full, "rows": [row], **more})


@pytest.fixture
def archived(tmp_path):
    """The results of two runs, each of a sweep of its own."""
    root = tmp_path / "theirs"
    for name, key in KEYS.items():
        Ledger(root).write_train(key, {"status": "done", "steps": 3})
        sweep(root, name)
    return root


@pytest.mark.parametrize("packed", [False, True])
def test_a_sweep_gets_the_runs_that_only_theirs_names_and_nothing_of_them_is_an_orphan(archived, tmp_path, packed):
    """Our last call asked for seed 2. Theirs asked for seed 1, or for seed 2 after seed 1, with a claim."""
    rows = json.loads((archived / "sweeps/mine.json").read_text())["rows"]
    claims = [{"table": "a/b", "recorded": 1.0, "claims": [{"id": "x"}]}]
    for number, more in enumerate(({}, {"seed": 2, "key": "ef" * 32, "earlier": rows, "claims": claims, "looks": [{}]})):
        sweep(archived, "mine", **more)
        theirs, ours = tmp_path / f"packed{number}" if packed else archived, tmp_path / f"ours{number}"
        if packed:
            export_packed(archived, theirs)
        sweep(ours, "mine", seed=2, key="ef" * 32)
        assert import_ledger(theirs, ours).sweeps == ["mine", "other"]
        found = sweep_files.read(ours / "sweeps/mine.json")
        assert (
            found["rows"][0]["seed"] == 2
            and found["earlier"] == rows
            and all(found.get(name) == more.get(name) for name in ("claims", "looks"))
        )
        put(ours / KEYS["mine"][:16] / "weights/best.json")
        assert not garbage.collect(ours).items and import_ledger(theirs, ours).files == 0


def test_a_sweep_whose_row_has_another_key_here_is_refused_or_kept(archived, tmp_path):
    ours = tmp_path / "ours"
    sweep(ours, "mine", key="ef" * 32)
    before = tree(ours)
    assert "sweeps/mine.json: differs here" in refused(import_ledger, archived, ours)[0] and tree(ours) == before
    found, same = import_ledger(archived, ours, keep=True), tree(ours)["sweeps/mine.json"] == before["sweeps/mine.json"]
    assert (found.sweeps, found.kept, same) == (["other"], ["sweeps/mine.json"], True)


def test_a_search_whose_trials_are_scored_replaces_the_same_search_without_scores(archived, tmp_path):
    ours, key = tmp_path / "ours", KEYS["mine"]
    for root, scored in ((archived, {"scores": {"bleu": 30.0}}), (ours, {})):
        trial = {"number": 0, "value": 2.5, "seconds": len(scored), **scored}
        Ledger(root).write_train(key, {"status": "done", "steps": 3})
        Ledger(root).write_record(key, "search", "5e" * 32, {"chosen": 0, "tune": {"seeds": {"search": [1]}}, "trials": [trial]})
    assert import_ledger(archived, ours).completed == [key[:16]] and import_ledger(ours, archived).files == 0
    (record,) = Ledger(ours).records(key, "search")
    assert record["trials"][0]["scores"] == {"bleu": 30.0}


def test_a_signal_leaves_nothing_of_an_import(archived, tmp_path, forked):
    def until_the_signal():
        with pytest.raises(KeyboardInterrupt):
            import_ledger(archived, ours)

    ours = tmp_path / "ours"
    ours.mkdir()
    before = tree(tmp_path)
    assert forked(until_the_signal, "import_file:term") == 0
    assert tree(tmp_path) == before


def test_a_record_that_would_fill_the_memory_is_refused_before_it_is_parsed(archived, tmp_path, monkeypatch):
    """An empty list takes 3 bytes of text and 64 of memory: 120 MB of them took 3.2 GB."""
    key = "ef" * 32
    Ledger(archived).write_train(key, {"status": "done", "lists": [[]] * 200})
    monkeypatch.setattr(documents, "MOST_VALUES", 100)
    monkeypatch.setattr(weights, "_sealed", lambda _: pytest.fail("it was parsed"))
    assert f"{key[:16]}/train.json: not a whole record" in refused(import_ledger, archived, tmp_path / "ours")[0]
    (tmp_path / "manifest.json").write_text(json.dumps({"manifest": [[]] * 200}))
    with pytest.raises(weights.CorruptError, match="not readable"):
        weights.read_manifest(tmp_path / "manifest.json", "ab" * 32)


def test_a_sweep_that_runs_here_is_left_alone(archived, tmp_path):
    ours = tmp_path / "ours"
    with RunLock(ours / "sweeps" / "mine.lock"):
        before = tree(ours)
        with pytest.raises(LockedError, match=r"sweeps/mine\.json: process .* is at work"):
            import_ledger(archived, ours)
        assert tree(ours) == before


def test_only_what_the_named_sweeps_hold_and_nobody_works_at_is_exported(tmp_path, archived):
    tables, live, _ = export_packed(archived, tmp_path / "mine", only=["mine"])
    assert tables == {"runs": 1} and live == {} and [path.name for path in (tmp_path / "mine" / "sweeps").iterdir()] == ["mine.json"]
    before = tree(tmp_path)
    for folder in ("mine", "theirs"):  # another sweep's export, and the results themselves
        assert "holds other runs, which would be lost" in refused(export_packed, archived, tmp_path / folder, only=["other"])[0]
    assert tree(tmp_path) == before and export_packed(archived, tmp_path / "mine", only=["mine"])[0] == tables
    assert "did you mean mine" in refused(export_packed, archived, tmp_path / "none", only=["min"])[0]
    with RunLock(archived / KEYS["mine"][:16] / "lock"):
        tables, live, _ = export_packed(archived, tmp_path / "rest")
        assert import_ledger(archived, tmp_path / "ours").added == [KEYS["other"][:16]]
    assert [*live] == [KEYS["mine"][:16]] and tables == {"runs": 1}


def test_a_named_sweep_brings_all_its_parts(tmp_path, archived):
    for name, part in (("mine", "search"), ("other", "tuned")):
        sweep(archived, name, full=f"a/b:{part}")
    for number, asked in enumerate(("mine", "other", "a/b")):
        tables, *_ = export_packed(archived, tmp_path / str(number), only=[asked])
        names = {path.name for path in (tmp_path / str(number) / "sweeps").iterdir()}
        assert tables == {"runs": 2} and names == {"mine.json", "other.json"}
