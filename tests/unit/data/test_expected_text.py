"""Another text under a known corpus's name is said by `plan`, `run` and `table`, and is in the run's record."""

import json
from pathlib import Path

import pytest

from orchestrator.data import own_corpus
from orchestrator.data.expected_text import of_files, of_prepared, unexpected
from orchestrator.data.prepare import prepare
from orchestrator.ledger.results import Ledger
from orchestrator.report.find import Finder
from orchestrator.report.table import make
from orchestrator.specs import corpora
from orchestrator.specs.rows import resolve
from orchestrator.specs.schema import DataSpec, Subword
from orchestrator.sweeps.plan import Data, plan
from tests.unit.lifecycle.life import put

HEAD = """\
source: {paper: demo, table: small}
data: {corpus: iwslt14-de-en, subword: {kind: word, size: 60, joint: false}}
model: {d_model: 16, d_ff: 32, num_heads: 2, encoder: {num_layers: 1}, decoder: {num_layers: 1}}
train: {max_steps: 1, validate_every: 1, checkpoint_every: 1}
rows: {base: {}}
"""
SAID = [
    "iwslt14-de-en has 60 training pairs here, 160,239 expected",
    "iwslt14-de-en has 6 validation pairs here, 7,283 expected",
    "iwslt14-de-en has 6 pairs of test here, 6,750 expected",
]


@pytest.fixture
def small(tiny: Path, monkeypatch) -> Path:
    """A data directory with 60 + 6 + 6 pairs under the name iwslt14-de-en."""
    monkeypatch.undo()  # the catalogue as it is
    folder = tiny / "iwslt14-de-en"
    (tiny / "tiny").rename(folder)
    for path in list(folder.iterdir()):
        path.rename(path.with_suffix({".a": ".de", ".b": ".en"}[path.suffix]))
    return tiny


def test_plan_run_and_table_say_it(small: Path, spec, tmp_path, cli) -> None:
    file = spec(text=HEAD)
    results, cache, rows = tmp_path / "results", tmp_path / "cache", resolve(file)
    expected = [f"warning: {line}" for line in SAID]
    assert [line for line in plan(rows, [1], ledger=Ledger(results), data=Data(small)).notes if line.startswith("warning")] == expected
    code, _, err = cli("run", file, "--no-tracking", "--data-dir", small, "--cache-dir", cache, "--results", results)
    assert code == 0 and {*expected} <= {*err.splitlines()}
    assert Data(small, cache).unexpected(rows) == SAID, "of the prepared text"
    (record,) = (json.loads(path.read_text()) for path in results.glob("*/train.json"))
    assert record["text"]["pairs"] == {"train": 60, "valid": 6}
    assert {split: len(sums) for split, sums in record["text"]["sha256"].items()} == {"train": 2, "valid": 2}
    absent = cli("translate", file, "--results", results)[2]
    assert "lies in files" in absent and "no scored run" not in absent, "the run is found without the data"
    assert {*SAID} <= {*make("demo/small", rows, Finder(Ledger(results), Data(None))).notes}, "the data need not be there"


def test_a_change_after_data_add_is_said(tiny: Path, spec, tmp_path, monkeypatch, cli) -> None:
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    own_corpus.add("own", "de", "en", {name: [tiny / "tiny" / f"{name}.{side}" for side in "ab"] for name in ("train", "valid", "test")})
    file, places = spec(text=HEAD.replace("iwslt14-de-en", "own")), ["--cache-dir", tmp_path / "cache", "--results", tmp_path / "results"]
    assert cli("run", file, "--no-tracking", *places)[0] == 0 and "not the expected" not in cli("table", file, *places)[1]
    said = "own: the text of {} here is not the expected one: "
    put(tiny / "tiny" / "test.b", "other\n" * 6)
    assert cli("run", file, "--no-tracking", *places)[0] == 0 and said.format("test") in cli("table", file, *places)[1]
    put(tiny / "tiny" / "train.a", "other\n" * 60)
    assert said.format("train") in cli("translate", file, *places)[2], "the weights are of the earlier text"


def test_data_check_refuses_it(small: Path, cli) -> None:
    code, _, err = cli("data", "check", "iwslt14-de-en", "--data-dir", small)
    assert code == 2 and [line for line in err.splitlines() if line.startswith("error")] == [f"error: {line}" for line in SAID]


def test_counts_are_of_the_text_before_the_filters(small: Path, tmp_path) -> None:
    data = DataSpec(corpus="iwslt14-de-en", subword=Subword(kind="word", size=60, joint=False), max_words=6)
    ready, entry = prepare(data, small, tmp_path / "cache"), corpora.load_entry("iwslt14-de-en")
    assert ready.stats["splits"]["train"]["pairs"] < 60
    found = of_prepared(ready, ready.stats["splits"])
    assert found == of_files(entry, small, ready.stats["splits"]) and found["pairs"] == {"train": 60, "valid": 6, "test": 6}


def test_nothing_is_said_where_nothing_is_expected_or_known() -> None:
    assert unexpected("toy-smoke", {"pairs": {"train": 3}, "sha256": {}}) == []
    assert unexpected("no-such-corpus", {"pairs": {"train": 3}}) == []
    assert unexpected("iwslt14-de-en", {}) == unexpected("iwslt14-de-en", {"pairs": {"test": None}}) == []
