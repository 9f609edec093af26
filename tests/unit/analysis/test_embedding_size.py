"""BLEU by embedding size with the seeds' spread, and dense models against their baselines."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

from orchestrator.analysis.files import write
from orchestrator.analysis.intervals import Intervals
from orchestrator.analysis.kinds import embedding_size
from orchestrator.analysis.kinds.embedding_size import analyse
from orchestrator.errors import UserError
from orchestrator.specs.rows import resolve
from orchestrator.sweeps.plan import Data, keys_for

DENSE = "encoder: {connection: {kind: dense}}"
HEAD = f"""\
source: {{paper: demo, table: small}}
data: {{corpus: toy-smoke, subword: {{kind: word, size: 300, joint: false}}}}
model: {{d_ff: 16, num_heads: 2, encoder: {{num_layers: 1}}, decoder: {{num_layers: 1}}}}
train: {{max_steps: 4}}
score: {{metric: multi-bleu}}
rows:
  base: {{model: {{d_model: 8}}}}
  row1/de-en-e8: {{label: "BASE, De-En, e = 8", model: {{d_model: 8}}, expect: {{bleu: 19.0, params: 11M}}}}
  row1/de-en-e16: {{label: "BASE, De-En, e = 16", model: {{d_model: 16}}, expect: {{bleu: 21.92, params: 28M}}}}
  row2/de-en-e8: {{label: "DENSE, De-En, e = 8", model: {{d_model: 8, {DENSE}}}, expect: {{bleu: 21.93, params: 11M}}}}
  row2/de-en-e16: {{label: "DENSE, De-En, e = 16", model: {{d_model: 16, {DENSE}}}}}
  row2/tr-en-e8: {{label: "DENSE, Tr-En, e = 8", model: {{d_model: 8, d_ff: 24, {DENSE}}}}}
"""


@pytest.fixture
def sizes(lab: Any, tmp_path: Path) -> Any:
    made = type(lab)(tmp_path, HEAD)
    made.rows = {row.id.removeprefix("demo/small/"): row for row in resolve(made.file)}
    return made


def finish(lab: Any, name: str, seed: int, bleu: float, params: int) -> None:
    """A scored run without translations."""
    row = lab.rows[name].at(seed)
    keys = keys_for(row, Data(None))
    lab.ledger.write_spec(keys.train, {"id": row.id, "seed": seed, "spec": row.spec.model_dump(), "keys": keys.as_dict()})
    lab.ledger.write_train(keys.train, {"status": "done", "steps": 4, "params": params})
    lab.ledger.write_score(keys.train, keys.score, {"decode_key": keys.decode, "bleu": bleu, "signature": "x"})


BLEU = {"row1/de-en-e8": [18.0], "row1/de-en-e16": [20.0, 21.0], "row2/de-en-e8": [20.25, 20.75], "row2/de-en-e16": [22.0]}
PARAMS = {"row1/de-en-e8": 300, "row1/de-en-e16": 1000, "row2/de-en-e8": 390, "row2/de-en-e16": 1100}


@pytest.fixture
def scored(sizes: Any) -> Any:
    for name, bleus in BLEU.items():
        for seed, bleu in enumerate(bleus, start=1):
            finish(sizes, name, seed, bleu, PARAMS[name])
    return sizes


def test_a_record_for_each_row_over_its_seeds(scored: Any) -> None:
    made = analyse(scored.context("embedding-size", *BLEU))
    assert [(r["model"], r["corpus"], r["embedding"], r["seeds"]) for r in made.records] == [
        ("BASE", "de-en", 8, 1),
        ("BASE", "de-en", 16, 2),
        ("DENSE", "de-en", 8, 2),
        ("DENSE", "de-en", 16, 1),
    ]
    assert [r["bleu"] for r in made.records] == [18.0, 20.5, 20.5, 22.0]
    assert made.records[1]["spread"] == pytest.approx(statistics.stdev([20.0, 21.0]), abs=1e-4) and made.records[0]["spread"] is None


def test_a_small_dense_model_against_the_large_baseline(scored: Any) -> None:
    made = analyse(scored.context("embedding-size", *BLEU))
    base, large, dense, _ = made.records
    assert base["baseline"] is large["baseline"] is None
    assert dense["baseline"] == "demo/small/row1/de-en-e16" and (dense["delta"], dense["params_pct"]) == (0.0, 39.0)
    assert (dense["paper_delta"], dense["paper_params_pct"]) == (0.01, 39.29)
    assert made.summary == [
        "de-en: DENSE with e = 8 against row1/de-en-e16: BLEU +0.00 (paper +0.01), parameters 39% (paper 39%)",
        "e = 8: not below the baseline with the largest embeddings: 1 of 1 (paper 1 of 1)",
    ]


def test_no_baseline_on_another_corpus(scored: Any) -> None:
    finish(scored, "row2/tr-en-e8", 1, 10.0, 5)
    made = analyse(scored.context("embedding-size", "row2/tr-en-e8", "row1/de-en-e16"))
    assert made.records[0]["baseline"] is None and any("nothing is compared" in note for note in made.notes)
    assert made.summary == []


def test_the_figure_has_ours_above_the_papers(scored: Any, tmp_path: Path) -> None:
    made = analyse(context := scored.context("embedding-size", *BLEU))
    figure = Figure()
    made.draw(figure)
    above, below = figure.axes
    assert (above.get_title(), below.get_title()) == ("de-en, here", "de-en, paper")
    drawn = [[(list(c.lines[0].get_xdata()), list(c.lines[0].get_ydata())) for c in axes.containers] for axes in (above, below)]
    assert drawn[0] == [([8, 16], [18.0, 20.5]), ([8, 16], [20.5, 22.0])]
    assert drawn[1] == [([8, 16], [19.0, 21.92]), ([8], [21.93])]
    assert [text.get_text() for text in below.get_xticklabels()] == ["8", "16"]
    assert set(write(made, context, tmp_path)) == {"json", "csv", "png", "svg", "pdf"}


def test_one_size_is_one_line_and_exit_2(scored: Any, cli: Any, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"embedding-size: found only e = 8 .*; expected rows with different") as caught:
        analyse(scored.context("embedding-size", "row1/de-en-e8", "row2/de-en-e8"))
    assert len(caught.value.lines) == 1
    where = ["--results", scored.results, "--cache-dir", scored.cache, "--out", tmp_path / "out", "--no-tracking"]
    code, out, err = cli("analyse", f"{scored.file}#row1/de-en-e8", "--kind", "embedding-size", "--option", "x=1", *where)
    assert code == 2 and out == "" and "--option x=1: x is no option of embedding-size" in err and err.count("\n") == 1


def test_without_a_score_a_row_has_no_record(sizes: Any) -> None:
    subject = sizes.subject("row1/de-en-e8")
    assert embedding_size.analyse_row(subject, Intervals(sizes.context("embedding-size"), [subject])) is None


def test_baselines_are_the_rows_that_are_dense_nowhere() -> None:
    """Dense decoders and dense attention alone are compared too (Shen et al. 2018, Table 2)."""
    rows = resolve("shen2018/table1") + resolve("shen2018/table2")
    found = {row.label.partition(",")[0] for row in rows if row.spec is not None and not embedding_size.is_dense(row.spec.model)}
    assert found == {"BASE-4L", "BASE-8L", "BASE"}
