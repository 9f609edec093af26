"""Packed runs: the same records, files and refusals as in folders of runs."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
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
    ledger, (path,) = Ledger(root), (root / "packed").iterdir()
    for found in pq.read_table(path).to_pandas().bleu.dropna():  # as any other program reads it
        assert np.array_equal(found, COUNTS.ravel()) and found.dtype == np.int32
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
    assert packing.write(packed.runs(root), tmp_path / "again") and tree(tmp_path / "again") == tree(root), "packed runs are packed again"
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


def rewritten(table: pa.Table, dictionary: bool = False, **options: object) -> bytes:
    """The file with the right sha256, as another program could write it."""
    table, stream = table.replace_schema_metadata({"check": packed.MARK + b"0" * 64}), pa.BufferOutputStream()
    pq.write_table(table, stream, use_dictionary=dictionary, **options)
    return packed.stamped(stream.getvalue().to_pybytes())


def test_damage_is_refused_in_one_line(root: Path) -> None:
    path = root / "packed" / "paper-table1.parquet"
    whole, table = path.read_bytes(), pq.read_table(path)
    path = path.with_name("paper-table2.records.zst")  # beside the whole file; an earlier version gave this name
    flipped = [whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :] for at in (*range(0, len(whole), 97), len(whole) - 1)]
    wrong = [rewritten(table.drop_columns("nll")), rewritten(table, True), rewritten(table, column_encoding={"file": "DELTA_BYTE_ARRAY"})]
    for data in (*flipped, *wrong, whole[:-5], b"", b"x\ny", packed.MARK, rewritten(table).replace(packed.MARK, b"")):
        path.write_bytes(data)
        reason = "other columns or encodings" if data in wrong else "its sha256 is missing or another"
        assert refused(Ledger(root).runs) == [f"{path}: is damaged, or written by an earlier version: export again ({reason})"]
    path.write_bytes(rewritten(table.set_column(0, "file", pa.array(["../train.json"] * len(table)))))
    assert refused(Ledger(root).runs) == [f"{path}: holds a line that names no file of a run"]
