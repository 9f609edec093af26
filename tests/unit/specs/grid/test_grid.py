"""A file's grid: combinations, conditions, draws, names; what is refused before anything starts; `explain`."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.errors import UserError
from orchestrator.specs import table_file
from orchestrator.specs.rows import resolve, sweep_of
from tests.unit.conftest import MINIMAL, refused

HEAD = MINIMAL.replace("table: small", "table: grid").replace("rows:", "rows: {base: {pinned: true}}\ngrid:")
GRID = """\
  axes:
    fusion:
      grid:
        plain: {}
        linear: {model.<side>.aggregation: {kind: linear}}
        mlrf: {model.<side>.aggregation: {kind: mlrf-self-attention, d_a: 8, d_f: 8}}
    side: {when: {fusion: {not: plain}}, words: {encoder: [encoder], both: [encoder, decoder]}}
    hops: {when: {fusion: mlrf}, key: model.<side>.aggregation.n_hop, grid: [2, 3]}
    depth: {zip: {model.encoder.num_layers: [2, 4], train.recompute: [none, layers]}, names: [2, 4], id: d}
    l2: {key: model.regularizers.encoder_l2.weight, grid: [unset, 1.0e-5]}
  exclude:
    - {when: {depth: {above: 2}, side: encoder}, reason: too deep on one side}
    - {when: {fusion: plain, l2: 1.0e-5}, reason: of no interest}
    - {when: {fusion: linear, side: both, l2: unset}, reason: of no interest}
"""


@pytest.fixture
def grid(spec) -> Callable[..., Path]:
    return lambda text=GRID, **options: spec("", head=HEAD + text, **options)


def names(path: Path) -> list[str]:
    return [row.id.removeprefix("demo/grid/") for row in resolve(path)]


def problems(path: Path) -> list[str]:
    return [line.split("spec.yaml:", 1)[1] for line in refused(resolve, path)]


def test_every_combination_is_a_row_with_a_name_of_its_own(grid) -> None:
    found = names(grid())
    assert found[0] == "base" and len(found) == len(set(found))
    assert found[1:] == [
        "d2", "d4",
        "linear-encoder-d2", "linear-encoder-d2-l21e-05", "linear-both-d2-l21e-05", "linear-both-d4-l21e-05",
        "mlrf-encoder-hops2-d2", "mlrf-encoder-hops2-d2-l21e-05", "mlrf-encoder-hops3-d2", "mlrf-encoder-hops3-d2-l21e-05",
        *(f"mlrf-both-hops{n}-d{d}{l2}" for n in (2, 3) for d in (2, 4) for l2 in ("", "-l21e-05")),
    ]  # fmt: skip


def test_names_of_values_that_set_nothing_are_left_out(grid) -> None:
    text = "  axes:\n    a: {key: model.d_ff, grid: [unset, 48]}\n    b: {grid: {none: {}, wide: {model.encoder.num_layers: 3}}}\n"
    assert names(grid(text)) == ["base", "default", "wide", "a48", "a48-wide"]


def test_a_row_is_what_its_values_set(grid) -> None:
    (row,) = resolve(f"{grid()}#mlrf-both-hops3-d4-l21e-05")
    assert row.spec is not None and row.label == "fusion mlrf, side both, hops 3, depth 4, l2 1e-05"
    model = row.spec.model
    assert model.encoder.aggregation == model.decoder.aggregation and model.encoder.aggregation["n_hop"] == 3
    assert (model.encoder.num_layers, model.decoder.num_layers, row.spec.train.recompute) == (4, 2, "layers")
    assert model.regularizers == [{"kind": "encoder_l2", "weight": 1e-5}]


def test_a_number_drawn_twice_is_one_row(grid) -> None:
    path = grid("  samples: 8\n  axes:\n    rate: {key: optim.label_smoothing, loguniform: {low: 0.1, high: 0.2, digits: 1}}\n")
    assert sorted(names(path)) == ["base", "rate0.1", "rate0.2"]
    table = table_file.read(path)
    assert table.grid is not None and table.grid.repeated == 6


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        ("a: {key: model.d_f, grid: [3]}", "8: grid.axes.a.grid[0]: unknown key; expected one of"),
        ("a: {key: modle.d_ff, grid: [3]}", "did you mean model?"),
        ("a: {key: model.d_ff, grid: [-3]}", "grid.axes.a.grid[0]: found -3; expected a number >= 1"),
        ("a: {key: model.d_ff}", "found no values; expected one of grid, zip, loguniform, words"),
        ("a: {key: model.d_ff, gird: [3]}", "grid.axes.a.gird: unknown key"),
        ("a: {grid: [3]}", "key is missing"),
        ("a: {zip: {model.d_ff: [3, 4], model.d_model: [8]}}", "lists of different lengths"),
        ("a: {zip: {model.d_ff: [3, 4]}, names: [b, b]}", "a name of its own for each"),
        ("a: {key: model.d_ff, words: {b: [c]}}", "found a key beside words; expected none"),
        ("a: {key: model.d_ff, loguniform: {low: 0, high: 1}}", "found 0; expected a number > 0"),
        ("a: {key: model.d_ff, loguniform: {low: 2, high: 1}}", "expected low below high"),
        ("a: {key: model.<side>.num_layers, grid: [3]}", "found <side>; expected none (an axis of kind words)"),
        ("a: {key: model.d_ff, grid: [3], when: {b: 1}}\n    b: {key: model.d_model, grid: [8]}", "a.when.b: unknown axis, or one below"),
        ("a: {zip: {model.d_ff: [16, 16, 8]}}\n    b: {key: model.d_model, grid: [8], when: {a: 12}}", "found 12; expected one of 16, 8"),
        ("a: {key: model.d_ff, grid: [8, 16]}\n    b: {key: model.d_ff, grid: [24]}", "b.grid[0]: sets model.d_ff, which"),
        ("a: {key: model.d_ff, grid: [8, 8]}", "found a value twice"),
        ("a: {grid: {x: {model.d_ff: 8}, X: {model.d_ff: 16}}}", "found the name X for [a x] and [a X]"),
    ],
)  # fmt: skip
def test_mistakes_are_lines_before_anything_starts(grid, axes: str, message: str) -> None:
    assert any(message in line for line in problems(grid(f"  axes:\n    {axes}\n")))


def test_what_components_refuse_is_an_error(grid) -> None:
    text = "  axes:\n    depth: {key: model.encoder.num_layers, grid: [2, 3, 4], id: d}\n"
    text += "    fusion: {grid: {plain: {}, pairs: {model.encoder.connection: {kind: hierarchical}}}}\n"
    (line,) = problems(grid(text))
    assert "hierarchical joins layers in pairs: num_layers 3 is odd" in line and line.startswith("9: grid.axes.fusion.grid.pairs")
    with pytest.raises(UserError, match="is odd"):
        resolve(f"{grid(text)}#d3-pairs")


def test_explain_tells_the_condition_in_the_words_of_the_file(grid, cli) -> None:
    path = grid()
    code, out, _ = cli("explain", path, "fusion=linear", "side=encoder", "depth=4")
    assert code == 4 and "0 of 2 combinations are rows" in out
    assert "spec.yaml:18: grid.exclude[0]: {when: {depth: {above: 2}, side: encoder}}: too deep on one side" in out
    code, out, _ = cli("explain", path, "fusion=linear", "--json")
    told = json.loads(out)
    assert code == 0 and (told["combinations"], told["rows"]) == (8, 4)
    assert [each["combinations"] for each in told["excluded"]] == [2, 2] and told["examples"][0] == "demo/grid/linear-encoder-d2"
    code, out, _ = cli("explain", path, "fusion=plain", "hops=2")
    assert code == 4 and "spec.yaml:14: grid.axes.hops.when: hops applies only when {fusion: mlrf}" in out


def test_explain_of_what_is_not_there(grid, cli) -> None:
    given = {"fusoin=linear": "did you mean fusion?", "hops=7": "expected one of 2, 3", "hops": "expected AXIS=VALUE"}
    for value, message in given.items():
        code, _, err = cli("explain", grid(), value)
        assert code == 2 and message in err


def test_seeds_may_be_a_number(spec) -> None:
    assert sweep_of(spec("  a: {}\nsweep: {seeds: 3}\n")).seeds == [1, 2, 3]
    assert sweep_of(spec("  a: {}\nsweep: {seeds: [4, 2]}\n")).seeds == [4, 2]
    with pytest.raises(UserError, match="expected how many, from 1 to 1000"):
        resolve(spec("  a: {}\nsweep: {seeds: 0}\n"))


def test_a_long_plan_is_a_summary_and_its_json_has_every_row(grid, cli, tmp_path) -> None:
    axes = "    d: {key: model.d_ff, grid: [8, 16, 24, 40, 64]}\n    clip: {key: optim.clip_norm, loguniform: {low: 1, high: 9}}\n"
    path = grid(f"  samples: 12\n  axes:\n{axes}")
    rows = names(path)
    assert len(rows) > 50
    code, out, err = cli("plan", path, "--results", tmp_path / "r")
    shown = [name for name in rows if f" {name} " in out]
    assert code == 0 and shown == [*rows[:5], *rows[-5:]] and f"({len(rows) - 10} rows more: --json)" in out
    assert "  axis d: 8, 16, 24, 40, 64\n  axis clip: 1 to 9, drawn\n" in err
    _, out, _ = cli("plan", path, "--results", tmp_path / "r", "--json")
    assert [row["id"].rpartition("/")[2] for row in json.loads(out)["rows"]] == rows
    _, out, err = cli("plan", grid(), "--results", tmp_path / "r")
    assert "rows more" not in out and "  axis hops: 2, 3 (fusion: mlrf)\n" in err


def test_tables_of_a_folder_have_the_same_resources(spec) -> None:
    for name, memory in (("spec", "2G"), ("two", "2G"), ("three", "3G")):
        rows = f"  a: {{}}\nsweep: {{resources: {{memory: {memory}}}}}\n"
        folder = spec(rows, name=f"{name}.yaml", head=MINIMAL.replace("small", name)).parent
        assert memory == "3G" or sweep_of(folder).resources.memory == "2G"
    assert "three.yaml:7: sweep.resources: found others" in refused(sweep_of, folder)[0]
