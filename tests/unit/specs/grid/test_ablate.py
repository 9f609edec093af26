"""`ablate`: a row without each of its components in turn, as a table that other commands take."""

from pathlib import Path

import pytest

from orchestrator.specs.grid.ablate import ablation
from orchestrator.specs.row import Row
from orchestrator.specs.rows import resolve


def made(target: str, folder: Path, **options: str) -> dict[str, Row]:
    path = folder / "ablated.yaml"
    path.write_text(ablation(target, **options)[0])
    return {row.id.rsplit("/", 1)[1]: row for row in resolve(path)}


def test_each_component_goes_back_in_turn(tmp_path) -> None:
    rows = made("dou2018/table1/row9", tmp_path)
    assert list(rows) == ["full", "without-encoder.connection", "without-decoder.connection", "without-diversity", "baseline"]
    (row9,), (row5,), (control,) = (resolve(f"dou2018/table1/{name}") for name in ("row9", "row5", "row1-continued"))
    assert rows["full"].spec == row9.spec and rows["full"].pinned
    assert rows["without-diversity"].spec == row5.spec, "the work of row5, under the same key"
    assert rows["baseline"].spec == control.spec
    left = rows["without-encoder.connection"].spec
    assert left is not None and row9.spec is not None and left.model.regularizers == row9.spec.model.regularizers
    assert (left.model.encoder.connection["kind"], left.model.decoder.connection["kind"]) == ("residual", "hierarchical")


def test_what_the_row_lacks_is_put_back(spec, tmp_path) -> None:
    base = "  first: {pinned: true}\n  base: {model: {regularizers: [{kind: diversity, weight: 0.5}]}}\n"
    path = spec(base + "  plain: {compare_with: base, model: {encoder: {aggregation: {kind: linear}}}}\n")
    rows = made(f"{path}#plain", tmp_path)
    assert list(rows) == ["full", "without-encoder.aggregation", "with-diversity", "baseline"]
    assert rows["baseline"].spec == resolve(f"{path}#base")[0].spec


def test_components_that_need_each_other_go_together(tmp_path) -> None:
    """MSC: contextual attention cannot stay without its context."""
    rows = made("wei2020/table2/row4/en-de", tmp_path)
    without = [name for name in rows if name.startswith("without-context")]
    assert without and all("encoder.self_attention" in name for name in without)
    specs = [row.spec for row in rows.values()]
    assert all(specs.count(spec) == 1 for spec in specs), "no row twice"


@pytest.mark.slow
def test_a_row_of_a_grid_goes_back_to_the_row_that_is_pinned(tmp_path) -> None:
    rows = made("sweeps/fusion-grid/d6-multi_layer-encoder-k2-transparent", tmp_path)
    assert list(rows) == ["full", "without-encoder.self_attention", "without-bridge", "baseline"]
    (baseline,) = resolve("sweeps/fusion-grid/baseline")
    assert rows["baseline"].spec == baseline.spec


def test_a_named_baseline_is_of_the_same_file(spec, tmp_path, monkeypatch) -> None:
    rows = "  base: {}\n  %s\n  both: {model: {encoder: {aggregation: {kind: linear}}, decoder: {aggregation: {kind: linear}}}}\n"
    path = spec(rows % "other: {model: {encoder: {aggregation: {kind: linear}}}}")
    (tmp_path / "z").mkdir()
    spec(rows % "other: {}", name="z/same-address.yaml")
    monkeypatch.chdir(path.parent / "z")
    assert list(made(f"{path}#both", tmp_path, baseline="other")) == ["full", "without-decoder.aggregation"]


@pytest.mark.parametrize(
    ("row", "message"), [("base", "found no baseline"), ("same", "has the components of demo/small/base"), ("quoted", "of kind quoted")]
)
def test_what_has_nothing_to_put_back(spec, cli, row: str, message: str) -> None:
    path = spec("  base: {pinned: true}\n  same: {model: {d_ff: 48}}\n  quoted: {kind: quoted}\n")
    code, _, err = cli("ablate", f"{path}#{row}")
    assert code == 2 and message in err
