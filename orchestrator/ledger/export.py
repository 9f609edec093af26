"""Copies the records of a run to another ledger, such as the one that is published with the product."""

from __future__ import annotations

import json
from pathlib import Path

from orchestrator.files import atomic
from orchestrator.ledger import packed, superseded
from orchestrator.ledger.packed import read_bytes
from orchestrator.ledger.results import Ledger, Run


def export(ledger: Ledger, run: Run | str, dest: Path, texts: bool = True) -> Path:
    """Copies a run's intact records (no locks, journal or tensors) to `dest`. A different training of the run there is set aside.

    texts: with the hypotheses. Without them the record of a decoding keeps their sha256 and says `has_texts: false`; tables, verdicts,
    paired tests and `repro` work without them.
    """
    key = run if isinstance(run, str) else run.key
    target = Ledger(dest, on_bad=ledger.reader.on_bad)
    superseded.set_aside_other(target.root, key, ledger.read_train(key), target.read_train(key))
    if (spec := ledger.read_spec(key)) is not None:
        target.write_spec(key, {name: value for name, value in spec.items() if name != "key"})
    for name in ("train", "capsule"):
        if (record := getattr(ledger, f"read_{name}")(key)) is not None:
            getattr(target, f"write_{name}")(key, record)
    for step, record in ledger.read_rungs(key).items():
        target.write_rung(key, step, record)
    for record in ledger.records(key, "decode"):
        _decode(ledger, target, key, record["key"], texts)
    for records, write in ((ledger.records(key, "score"), target.write_score), (ledger.records(key, "tune"), target.write_tune)):
        for record in records:
            write(key, record["key"], record)
    if history := ledger.history(key):
        text = "".join(json.dumps(report, separators=(",", ":")) + "\n" for report in history)
        path = target.run_dir(key) / "history.jsonl"
        if read_bytes(path) != text.encode():
            packed.refuse_packed(path.parent)
            atomic.write_text(path, text)
    return target.run_dir(key)


def _decode(ledger: Ledger, target: Ledger, train_key: str, decode_key: str, texts: bool) -> None:
    """Copies a decoding. Texts that are in `target` already stay there."""
    whole, record = ledger.read_decode(train_key, decode_key), ledger.read_decode_record(train_key, decode_key)
    if texts and whole is not None:
        target.write_decode(train_key, decode_key, whole, whole["hypotheses"])
    elif record is not None and target.read_decode(train_key, decode_key) is None:
        target.write_decode_record(train_key, decode_key, {k: v for k, v in record.items() if k != "tokens"} | {"has_texts": False})
