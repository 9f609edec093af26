"""Figures are found without the corpus too: by what runs and sweeps say of their specs, or by what a score says of itself."""

import os
from typing import Any

import pytest

from orchestrator.ledger.results import Ledger
from orchestrator.ledger.sweep_files import SweepFile
from orchestrator.report import notes
from orchestrator.report.find import Finder, SeedResult
from orchestrator.specs.row import Row
from orchestrator.specs.rows import resolve
from orchestrator.sweeps.plan import Data, keys_for
from tests.unit.conftest import MINIMAL
from tests.unit.report.support import many_rows, write_run

HEAD = MINIMAL.replace(", vocab: {src: 200, tgt: 200}", "")
ROWS = """\
  base: {also: {valid: {test: valid}}}
  checked: {score: {test: valid}}
  other: {model: {d_ff: 40}, also: {valid: {test: valid}}}
  from-base: {init_from: base, also: {valid: {test: valid}}}
  from-checked: {init_from: checked, score: {test: valid}}
  from-other: {init_from: other, score: {test: valid}}
"""


@pytest.fixture
def rows(spec) -> dict[str, Row]:
    return {row.id.rsplit("/", 1)[1]: row for row in resolve(spec(ROWS, head=HEAD))}


def finish(ledger: Ledger, row: Row, seed: int, *, said: bool, also_in_spec: bool = False) -> None:
    """Scored on test (30) and valid (20). said: the score records name their section."""
    own = row.at(seed)
    valid = own.rescored(row.also["valid"])
    keys, others = keys_for(own, Data(None)), keys_for(valid, Data(None))
    also: dict[str, Any] = {"also": {"valid": {"score": valid.spec.score.model_dump(), "keys": others.as_dict()}}} if also_in_spec else {}
    ledger.write_spec(keys.train, {"id": row.id, "seed": seed, "spec": own.spec.model_dump(), "keys": keys.as_dict()} | also)
    parent = {} if own.parent is None else {"parent": {"key": keys_for(own.parent, Data(None)).train}}
    ledger.write_train(keys.train, {"status": "done", "steps": 4} | parent)
    for found, spec, bleu in ((keys, own.spec, 30.0), (others, valid.spec, 20.0)):
        ledger.write_decode(keys.train, found.decode, {}, ["a"])
        record = {"decode_key": found.decode, "bleu": bleu} | ({"score": spec.score.model_dump(exclude_none=True)} if said else {})
        ledger.write_record(keys.train, "score", found.score, record)


@pytest.mark.parametrize(("said", "also_in_spec", "found"), [(True, False, 20.0), (False, True, 20.0), (False, False, None)])
def test_other_scorings_without_the_corpus(said, also_in_spec, found, rows: dict[str, Row], tmp_path, monkeypatch) -> None:
    finish(Ledger(tmp_path / "r"), rows["base"], 3, said=said, also_in_spec=also_in_spec)
    monkeypatch.setattr(Data, "manifest", lambda self, data: None)
    finder = Finder(Ledger(tmp_path / "none", [tmp_path / "r"]), Data(None))
    (outcome,) = finder.outcomes(rows["base"])
    assert (outcome.seed, outcome.bleu, outcome.also.get("valid")) == (3, 30.0, found)
    assert [o.bleu for o in finder.outcomes(rows["checked"])] == ([] if found is None else [found]), "a row that shares the training"
    assert finder.outcomes(rows["other"]) == [] and finder.keys(rows["other"]) is None


def test_without_the_corpus_the_run_of_the_last_sweep_counts(rows: dict[str, Row], tmp_path, monkeypatch) -> None:
    finish(Ledger(tmp_path), rows["base"], 3, said=False)
    row = {"id": "x", "seed": 3, "spec": rows["base"].at(3).spec.model_dump()}
    for time, name in enumerate("ba"):  # of an earlier text of the corpus
        file = SweepFile.of(tmp_path, name)
        file.write({"sweep_id": name, "rows": [row | {"keys": {"train": name * 64, "decode": name * 64, "score": name * 64}}]})
        os.utime(file.path, (time, time))
    monkeypatch.setattr(Data, "manifest", lambda self, data: None)
    assert Finder(Ledger(tmp_path), Data(None)).keys(rows["base"].at(3)).train == "a" * 64
    both = {"pairs": {"test": 50}, "leaked": {"test": [1, 2, 50], "unused": [1, 0, 9]}}
    mixed = [SeedResult(seed, "done", "", 4, text={"sha256": {"train": [str(seed)]}, **both}) for seed in (1, 2)]
    assert notes._texts([rows["base"]], {rows["base"].id: mixed}) == [
        "toy-smoke: runs on different training texts are mixed",
        "toy-smoke: 1 sources of test (2.0%) are in train too",
        "toy-smoke: 2 sources of test (4.0%) are in train too up to punctuation and case",
    ]


def test_a_parent_of_another_address_but_the_same_training(rows: dict[str, Row], tmp_path, monkeypatch) -> None:
    for name in ("base", "other", "from-base"):
        finish(Ledger(tmp_path / "r"), rows[name], 3, said=True)
    monkeypatch.setattr(Data, "manifest", lambda self, data: None)
    finder = Finder(Ledger(tmp_path / "none", [tmp_path / "r"]), Data(None))
    assert [o.bleu for o in finder.outcomes(rows["from-checked"])] == [20.0]
    assert finder.outcomes(rows["from-other"]) == [], "it starts from another training"


def test_seeds_are_found_in_the_specs_of_runs(tmp_path, capsys) -> None:
    file, root = many_rows(tmp_path, rows=3, seeds=2, sentences=2)
    row, *_ = resolve(file)

    def seeds() -> list[int]:
        return sorted(Finder(Ledger(root), Data(None)).seeds(row))

    assert seeds() == [1, 2]
    write_run(Ledger(root), row.at(7), bleu=30.0)
    assert seeds() == [1, 2, 7]
    key = keys_for(row.at(2), Data(None)).train
    spec = root / str(key)[:16] / "spec.yaml"
    spec.write_text(spec.read_text().replace("num_heads: 2", "num_heads: 4"))
    assert seeds() == [1, 7] and f"{spec}: its digest" in capsys.readouterr().err
