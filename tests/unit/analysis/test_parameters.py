"""Parameters in percent of a baseline's, counted without data or training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from models import build
from models.transformer import count_parameters
from orchestrator.analysis.kinds.untrained import analyse_parameters as analyse
from orchestrator.errors import UserError

HEAD = """\
source: {paper: demo, table: small}
data: {corpus: toy-smoke, subword: {kind: word, size: 300, joint: false}, vocab: {src: 50, tgt: 60}}
model: {d_model: 16, d_ff: 32, num_heads: 2, encoder: {num_layers: 2}, decoder: {num_layers: 1}}
train: {max_steps: 4}
rows:
  base: {label: baseline, expect: {params: 20M}}
  small: {label: smaller, model: {d_model: 8}, expect: {params: 5M}}
  deep: {label: another depth, model: {encoder: {num_layers: 3}}}
  small-deep: {label: smaller and deep, model: {d_model: 8, encoder: {num_layers: 3}}, expect: {params: 1M}}
"""


@pytest.fixture
def counted(lab: Any, tmp_path: Path) -> Any:
    return type(lab)(tmp_path, HEAD)


def asked(lab: Any, about: Any, **expect: Any) -> Any:
    """All four rows, asked for by an analysis row."""
    context = lab.context("parameters", "base")
    row = about(lab.rows["base"], id="demo/text/params", spec=None, of=[r.id for r in lab.rows.values()], expect=expect)
    context.subjects[:] = [lab.subject(name, row) for name in lab.rows]
    return context


def test_each_row_against_the_first_of_its_depth(counted: Any, about: Any) -> None:
    made = analyse(asked(counted, about, **{"small/small-deep": 40}))
    sizes = counted.prepared.src_size, counted.prepared.tgt_size
    expected = {n: count_parameters(build(row.spec.model.model_dump(), *sizes)) for n, row in counted.rows.items()}
    found = {r["row"].rpartition("/")[2]: r for r in made.records}
    assert {name: r["params"] for name, r in found.items()} == expected
    assert {name: r["baseline"] and r["baseline"].rpartition("/")[2] for name, r in found.items()} == {
        "base": None,
        "small": "base",
        "deep": None,
        "small-deep": "deep",
    }
    assert found["small"]["params_pct"] == pytest.approx(100 * expected["small"] / expected["base"], abs=0.01)
    assert found["small"]["paper_pct"] == 25.0, "of the printed sizes"
    assert found["small-deep"]["paper_pct"] == 40, "of the analysis row"


def test_declared_vocabularies_need_no_corpus(counted: Any, about: Any) -> None:
    for name, row in counted.rows.items():
        counted.rows[name] = about(
            row, spec=row.spec.model_copy(update={"data": row.spec.data.model_copy(update={"corpus": "wmt14-en-de"})})
        )
    made = analyse(counted.context("parameters", "base", "small"))
    assert {(r["src_vocab"], r["tgt_vocab"]) for r in made.records} == {(50, 60)}
    bare = counted.rows["base"].spec.data.model_copy(update={"vocab": type(counted.rows["base"].spec.data.vocab)()})
    counted.rows["bare"] = about(counted.rows["base"], spec=counted.rows["base"].spec.model_copy(update={"data": bare}))
    with pytest.raises(UserError, match="corpus wmt14-en-de lies in files") as caught:
        analyse(counted.context("parameters", "bare"))
    assert len(caught.value.lines) == 1
