"""A changed spec.yaml is damage: by its digest or, in files of earlier versions, by the train key of the run."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from orchestrator.data.recorded_spec import read_spec
from orchestrator.ledger.results import Ledger
from orchestrator.paths import PUBLISHED_LEDGER
from orchestrator.specs.rows import resolve
from orchestrator.sweeps.plan import Data, keys_for


def without_digest(path: Path) -> None:
    path.write_text("".join(line for line in path.read_text().splitlines(True) if not line.startswith("digest: ")))


@pytest.mark.parametrize("sealed", [True, False])
def test_a_changed_spec_is_told_and_absent(tmp_path: Path, sealed: bool) -> None:
    row = resolve("quickstart/fusion/linear", profile="smoke")[0]
    assert row.spec is not None
    keys = keys_for(row, Data(None))
    assert keys.train is not None
    bad: list[str] = []
    ledger = Ledger(tmp_path, on_bad=lambda path, reason: bad.append(path.name))
    ledger.write_spec(keys.train, {"id": row.id, "seed": 1, "spec": row.spec.model_dump(), "keys": keys.as_dict()})
    path = ledger.run_dir(keys.train) / "spec.yaml"
    if not sealed:
        without_digest(path)
    assert (read_spec(ledger, keys.train) or {})["id"] == row.id and bad == []
    path.write_text(path.read_text().replace(f"d_model: {row.spec.model.d_model}", f"d_model: {2 * row.spec.model.d_model}"))
    assert read_spec(ledger, keys.train) is None and bad == ["spec.yaml"]


@pytest.mark.parametrize(("size", "words"), [(129, "d_model"), (136, "train key")])
def test_specs_of_earlier_versions_are_checked_without_their_corpus(tmp_path: Path, size: int, words: str) -> None:
    """With the sha256 of the text that the record of the training has."""
    bad: list[str] = []
    ledger = Ledger(tmp_path, on_bad=lambda path, reason: bad.append(reason))
    published = Ledger(PUBLISHED_LEDGER)
    recorded = (run for run in published.runs() if (published.read_train(run.key) or {}).get("text"))
    for run in itertools.islice(recorded, 2):
        spec, train = published.read_spec(run.key), published.read_train(run.key)
        assert spec is not None and train is not None and "digest" in spec
        ledger.write_train(run.key, train)
        ledger.write_spec(run.key, spec)
        path = ledger.run_dir(run.key) / "spec.yaml"
        without_digest(path)
        assert read_spec(ledger, run.key) is not None and bad == []
        path.write_text(path.read_text().replace("d_model: 128", f"d_model: {size}"))
        assert read_spec(ledger, run.key) is None and words in bad.pop()
