"""What is known without training: properties of layer fusions (Wang et al. 2018, Table 1), parameters in percent of a baseline."""

from dataclasses import replace

import pytest

from models.transformer import build, count_parameters
from orchestrator.analysis.base import AnalysisContext
from orchestrator.analysis.kinds.untrained import PROPERTIES, analyse_parameters, analyse_properties, properties
from orchestrator.analysis.subjects import group, rows_of
from orchestrator.errors import UserError
from orchestrator.ledger.results import Ledger
from orchestrator.specs.schema import ModelSpec
from orchestrator.sweeps.options import RowOptions

SIZES = {"d_model": 16, "d_ff": 32, "num_heads": 2, "embeddings": "separate"}


def model(**decoder) -> ModelSpec:
    return ModelSpec.model_validate(SIZES | {"decoder": {"num_layers": 4} | decoder})


def test_the_average_weighs_all_states_alike_and_the_top_only_itself() -> None:
    assert properties(model(aggregation={"kind": "mlrf-avg"}), "decoder")[1] == pytest.approx([0.2] * 5)
    assert properties(model(aggregation={"kind": "mlrf-avg", "word_embedding": False}), "decoder")[1] == pytest.approx([0.0] + [0.25] * 4)
    assert properties(model(), "decoder")[1] == [0.0, 0.0, 0.0, 0.0, 1.0]
    for kind in ("dlcl", "dwa", "hierarchical"):  # they keep data of the pass from one layer to the next
        found, shares, _ = properties(model(connection={"kind": kind}), "decoder")
        assert list(found.values()) == [True, True, False] and min(shares[kind == "hierarchical" :]) > 0, kind


def test_beside_what_the_paper_says(lab) -> None:
    """A row's own `expect`, or that of the analysis row that asks for it, is compared; a wrong claim is named in a note."""
    right = replace(lab.rows["hop3"], id="demo/table/row4", label="SA", expect=dict.fromkeys(PROPERTIES, True))
    wrong = replace(lab.rows["base"], expect={"low_level_accessible": True, "parametric": False, "representation_2d": False})
    context = lab.context("properties")
    context.subjects.extend([lab.subject("hop3", right), lab.subject(wrong), lab.subject("later"), lab.subject("hier")])
    made = analyse_properties(context)
    assert [(r["row"].rpartition("/")[2], r["side"], r["agrees"]) for r in made.records] == [
        ("hop3", "decoder", True),
        ("base", "decoder", False),
        ("later", "decoder", None),
        ("hier", "encoder", None),
        ("hier", "decoder", None),
    ]
    assert made.notes == ["demo/small/base: differs from the paper's low_level_accessible"]


def test_the_rows_of_the_table_have_the_properties_that_the_paper_states(tmp_path) -> None:
    """mlrf2018/table1 as the command finds it: without data and without a training."""
    rows = rows_of(["mlrf2018/table1"], RowOptions())
    subjects, _ = group("properties", rows, RowOptions(), Ledger(tmp_path))
    made = analyse_properties(AnalysisContext(subjects, Ledger(tmp_path), None, tmp_path))
    assert [record["agrees"] for record in made.records] == [True] * 4 and made.notes == []
    others = rows_of(["modern/residual/attnres", "modern/residual/gtrans", "shen2018/table1/row1/de-en-e64"], RowOptions())
    left, _ = group("properties", others, RowOptions(), Ledger(tmp_path))
    assert len(analyse_properties(AnalysisContext([*subjects, *left], Ledger(tmp_path), None, tmp_path)).notes) == 3
    with pytest.raises(
        UserError, match=r"attnres: left out: encoder.residual depth_attention is not .*\n.* head groups .*\n.* convolution"
    ):
        analyse_properties(AnalysisContext(left, Ledger(tmp_path), None, tmp_path))


SIZED = """\
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
def counted(lab, tmp_path):
    return type(lab)(tmp_path, SIZED)


def test_each_row_against_the_first_of_its_depth(counted) -> None:
    """All four rows, asked for by an analysis row."""
    context, of = counted.context("parameters", "base"), [row.id for row in counted.rows.values()]
    row = replace(counted.rows["base"], id="demo/text/params", spec=None, of=of, expect={"small/small-deep": 40})
    context.subjects[:] = [counted.subject(name, row) for name in counted.rows]
    made = analyse_parameters(context)
    sizes = counted.prepared.src_size, counted.prepared.tgt_size
    expected = {n: count_parameters(build(row.spec.model.model_dump(), *sizes)) for n, row in counted.rows.items()}
    found = {r["row"].rpartition("/")[2]: r for r in made.records}
    assert {name: r["params"] for name, r in found.items()} == expected
    baselines = {name: r["baseline"] and r["baseline"].rpartition("/")[2] for name, r in found.items()}
    assert baselines == {"base": None, "small": "base", "deep": None, "small-deep": "deep"}
    assert found["small"]["params_pct"] == pytest.approx(100 * expected["small"] / expected["base"], abs=0.01)
    assert found["small"]["paper_pct"] == 25.0, "of the printed sizes"
    assert found["small-deep"]["paper_pct"] == 40, "of the analysis row"


def test_declared_vocabularies_need_no_corpus(counted) -> None:
    for name, row in counted.rows.items():
        data = row.spec.data.model_copy(update={"corpus": "wmt14-en-de"})
        counted.rows[name] = replace(row, spec=row.spec.model_copy(update={"data": data}))
    made = analyse_parameters(counted.context("parameters", "base", "small"))
    assert {(r["src_vocab"], r["tgt_vocab"]) for r in made.records} == {(50, 60)}
    bare = counted.rows["base"].spec.data.model_copy(update={"vocab": type(counted.rows["base"].spec.data.vocab)()})
    counted.rows["bare"] = replace(counted.rows["base"], spec=counted.rows["base"].spec.model_copy(update={"data": bare}))
    with pytest.raises(UserError, match="corpus wmt14-en-de lies in files") as caught:
        analyse_parameters(counted.context("parameters", "bare"))
    assert len(caught.value.lines) == 1
