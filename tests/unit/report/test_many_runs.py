"""Looking up rows in a ledger of many runs: a seed costs its records, not another reading of the same spec."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orchestrator.ledger.results import Ledger
from orchestrator.report.find import Finder
from orchestrator.specs.schema import RunSpec
from orchestrator.sweeps.plan import Data

SPEC = {"data": {"corpus": "toy-smoke"}, "model": {"d_model": 16}, "batch": {"unit": "tokens", "size": 100}, "train": {"max_steps": 1}}


def keys(number: int) -> dict[str, str]:
    return {name: f"{start}{number:015x}" * 4 for name, start in (("train", "a"), ("decode", "b"), ("score", "c"))}


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """20 seeds that a sweep tells of, and one that no sweep does."""
    found, plain = Ledger(tmp_path), RunSpec.model_validate(SPEC).model_dump(mode="json")
    rows = [{"id": "a/b/c", "seed": n, "keys": keys(n), "spec": plain | {"seed": n}} for n in range(1, 22)]
    for row in rows:
        found.write_spec(row["keys"]["train"], row)
        found.write_train(row["keys"]["train"], {"status": "done"})
    (tmp_path / "sweeps").mkdir()
    (tmp_path / "sweeps" / "s.json").write_text(json.dumps({"rows": rows[:-1]}))
    return found


def test_seeds_of_a_row_are_read_once(ledger, monkeypatch):
    validated, parsed = [], []
    validate, read_spec = RunSpec.model_validate, Ledger.read_spec
    monkeypatch.setattr(RunSpec, "model_validate", lambda *a, **k: validated.append(1) or validate(*a, **k))
    monkeypatch.setattr(Ledger, "read_spec", lambda self, key: parsed.append(key) or read_spec(self, key))
    index = Finder(ledger, Data(None))._index()
    assert [sorted(found) for found in index.values()] == [list(range(1, 22))]
    assert {seed: found.train for seed, found in next(iter(index.values())).items()} == {n: keys(n)["train"] for n in range(1, 22)}
    assert len(validated) == 1 and parsed == [keys(21)["train"]]
