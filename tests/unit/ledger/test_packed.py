"""Packed runs: the same records, files and refusals as in folders of runs."""

from pathlib import Path

import numpy as np
import pytest

from orchestrator.files import atomic
from orchestrator.ledger import packed, packing
from orchestrator.ledger.results import Ledger
from orchestrator.ledger.statistics import corpus_bleu, pack, unpack
from orchestrator.lifecycle.transfer import import_ledger
from orchestrator.specs.schema import ScoreSpec
from tests.unit.conftest import refused

TRAIN, OTHER, DECODE, SCORE = "a" * 64, "b" * 64, "c" * 64, "d" * 64
COUNTS = np.array([[9, 10, 8, 6, 4, 2, 9, 8, 7, 6], [5, 5, 5, 4, 3, 2, 5, 4, 3, 2]])
LOSSES = np.array([[3.25, 4], [1.5, 2]])
CHRF = np.arange(36).reshape(2, 18)


@pytest.fixture
def loose(tmp_path) -> Ledger:
    """Two runs of one table with statistics; the second shares its nll with the first."""
    ledger = Ledger(tmp_path / "loose")
    bleu = float(corpus_bleu(COUNTS.sum(0), ScoreSpec(metric="multi-bleu")))
    for key in (TRAIN, OTHER):
        ledger.write_train(key, {"status": "done", "steps": 7, "seconds": 1.5, "warm_start": {"copied": ["ä.weight"] * 3}})
        ledger.write_capsule(key, {"python": "3.11"})
        ledger.write_spec(key, {"id": "paper/table1/row1", "seed": 1, "spec": {"d_model": 8}})
        ledger.write_decode(key, DECODE, {"nll": pack(LOSSES), "tokens": ["x y", "z"]}, ["x\u2028y", "z"])
        statistics = {"bleu": pack(COUNTS), "nll": pack(LOSSES), "chrf": pack(CHRF)}
        ledger.write_record(key, "score", SCORE, {"bleu": bleu, "metric": "multi-bleu", "statistics": statistics})
        ledger.write_rung(key, 5, {"nll": 2.0})
        (ledger.run_dir(key) / "history.jsonl").write_text('{"step":5,"nll":2.0}\n')
    return ledger


@pytest.fixture
def root(loose: Ledger, tmp_path) -> Path:
    assert packing.write(packed.runs(loose.root), tmp_path / "shipped") == {"paper-table1": 2}
    return tmp_path / "shipped"


def plain(record):
    return packed.with_text(record) if isinstance(record, dict) else [plain(each) for each in record]


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_reads_what_was_packed(loose: Ledger, root: Path) -> None:
    ledger = Ledger(root)
    assert sorted(path.name for path in (root / "packed").iterdir()) == ["paper-table1.records.zst", "paper-table1.sentences.zst"]
    assert ledger.runs() == [TRAIN, OTHER]
    reads = [("read_train", TRAIN), ("read_capsule", TRAIN), ("read_spec", TRAIN), ("history", TRAIN), ("records", TRAIN, "score")]
    reads += [("read_decode", TRAIN, DECODE), ("record", OTHER, "decode", DECODE), ("record", OTHER, "score", SCORE)]
    reads += [("records", TRAIN, "decode")]
    for name, *arguments in reads:
        assert plain(getattr(ledger, name)(*arguments)) == plain(getattr(loose, name)(*arguments)) != []
    assert list(ledger.read_rungs(TRAIN)) == [5] and ledger.read_rungs(TRAIN) == loose.read_rungs(TRAIN)
    score = ledger.record(TRAIN, "score", SCORE) or {}
    assert np.array_equal(unpack(score["statistics"]["chrf"], 18), CHRF) and score["statistics"]["nll"].dtype == np.float32
    assert ledger.read_train("e" * 64) is None and ledger.record(TRAIN, "score", "e" * 64) is None


def test_the_same_files_come_back(loose: Ledger, root: Path, tmp_path) -> None:
    imported = import_ledger(root, tmp_path / "imported")
    assert imported.added == [TRAIN[:16], OTHER[:16]] and tree(tmp_path / "imported") == tree(loose.root)
    assert import_ledger(root, loose.root).same == [TRAIN[:16], OTHER[:16]]
    assert packing.write(packed.runs(root), tmp_path / "again") == {"paper-table1": 2}, "packed runs are packed again"
    weights = loose.run_dir(OTHER) / "weights" / "last.json"
    atomic.write_text(weights, "{}")
    before = tree(root)
    assert [import_ledger(loose.root, root).completed for _ in range(2)] == [[OTHER[:16]], []], "beside packed runs"
    assert tree(root) == before | {str(weights.relative_to(loose.root)): b"{}"}
    loose.write_train(TRAIN, {"status": "done", "steps": 8})
    assert f"{TRAIN[:16]}: differs here in {TRAIN[:16]}/train.json" in refused(import_ledger, loose.root, root)[0]


def test_packed_runs_are_read_only(root: Path) -> None:
    ledger = Ledger(root)
    before = tree(root)
    ledger.write_train(TRAIN, ledger.read_train(TRAIN) or {})
    ledger.write_record(TRAIN, "score", SCORE, ledger.record(TRAIN, "score", SCORE) or {})
    for write in (
        lambda: ledger.write_train(TRAIN, {"status": "failed"}),
        lambda: ledger.write_spec(TRAIN, {"id": "x"}),
        lambda: ledger.write_decode(TRAIN, DECODE, {}, ["other"]),
    ):
        assert f"run {TRAIN[:16]} is packed" in refused(write)[0]
    assert tree(root) == before


@pytest.mark.parametrize("name", ["records", "sentences"])
@pytest.mark.parametrize("damage", ["cut", "changed", "empty", "other"])
def test_damage_is_refused_in_one_line(root: Path, name: str, damage: str) -> None:
    path = root / "packed" / f"paper-table1.{name}.zst"
    data = bytearray(path.read_bytes())
    data[-9] ^= 1
    path.write_bytes({"cut": path.read_bytes()[:-5], "changed": bytes(data), "empty": b"", "other": b"x\ny"}[damage])
    (line,) = refused(Ledger(root).record, TRAIN, "score", SCORE)
    assert str(path) in line and "\n" not in line


def test_a_changed_record_counts_as_absent(root: Path, loose: Ledger) -> None:
    """Each record has its own sum, which holds where the packed file as a whole is whole."""
    path = root / "packed" / "paper-table1.records.zst"
    changed = packed.read_content(path).replace(b'"multi-bleu"', b'"sacrebleu"').replace(b'"steps":7', b'"steps":8')
    path.write_bytes(packing._packed_bytes(changed))
    bad: list[str] = []
    ledger = Ledger(root, on_bad=lambda path, reason: bad.append(path.name))
    assert ledger.record(TRAIN, "score", SCORE) is None and ledger.read_train(TRAIN) is None and ledger.read_capsule(TRAIN) is not None
    assert bad == [f"{SCORE[:16]}.json", "train.json"]
    train = loose.run_dir(TRAIN) / "train.json"
    train.write_text(train.read_text().replace("done", "gone"))
    assert "nothing was packed" in refused(packing.write, [train.parent], root)[0]
