"""Resolution: merging, inheritance, parents, overrides, profiles, and the file that `show` prints."""

from pathlib import Path

import pytest

from orchestrator.errors import UserError
from orchestrator.specs.row import Row, starts
from orchestrator.specs.rows import MAX_RUNS, resolve, runs, sweep_of
from orchestrator.specs.show import to_yaml
from tests.unit.conftest import MINIMAL, refused


def one(path: Path, name: str, **options: object) -> Row:
    return resolve(f"{path}#{name}", **options)[0]  # type: ignore[arg-type]


def test_a_row_is_its_difference(spec) -> None:
    base, wide = resolve(spec("  base: {}\n  wide: {model: {d_ff: 64}, decode: {beam_size: 2}}\n"))
    assert [(row.id, row.line) for row in (base, wide)] == [("demo/small/base", 6), ("demo/small/wide", 7)]
    assert wide.spec.model.model_dump(exclude={"d_ff"}) == base.spec.model.model_dump(exclude={"d_ff"})
    assert (base.spec.model.d_ff, wide.spec.model.d_ff, wide.spec.decode.beam_size) == (32, 64, 2)


def test_components_merge_by_kind(spec) -> None:
    head = (
        "source: {paper: demo, table: small}\ndata: {corpus: toy-smoke}\ntrain: {max_steps: 4}\n"
        "model: {encoder: {aggregation: {kind: mlrf-self-attention, n_hop: 6, d_a: 32}}}\nrows:\n"
    )
    rows = (
        "  hop: {model: {encoder: {aggregation: {n_hop: 2}}}}\n"
        "  same: {model: {encoder: {aggregation: {kind: mlrf-self-attention, d_f: 8}}}}\n"
        "  other: {model: {encoder: {aggregation: {kind: mlrf-fnn}}}}\n"
    )
    hop, same, other = (row.spec.model.encoder.aggregation for row in resolve(spec(rows, head=head)) if row.spec)
    assert (hop["n_hop"], hop["d_a"]) == (2, 32)
    assert (same["n_hop"], same["d_a"], same["d_f"]) == (6, 32, 8)
    assert other.items() >= {"kind": "mlrf-fnn", "d_f": 512, "word_embedding": True, "layer_embedding": True}.items()
    assert not {"n_hop", "d_a"} & set(other)


def test_extends_inherits_sections_and_assumptions_but_not_rows(spec) -> None:
    path = spec(text="extends: middle.yaml\nassumed: [model.norm]\nmodel: {d_ff: 48}\nrows: {new: {assumed: [train]}}\n")
    spec(text="extends: base.yaml\n", name="middle.yaml")
    assert "base.yaml': no such file" in refused(resolve, path)[0]
    for width in (16, 8, 128):  # a process that goes on sees every change
        spec("  old: {}\n", name="base.yaml", head=MINIMAL.replace("d_model: 16", f"d_model: {width}"))
        (row,) = resolve(path)
        assert row.id == "local/spec/new" and row.assumed == ["model.norm", "train"]
        assert row.spec is not None and (row.spec.model.d_ff, row.spec.model.d_model) == (48, width)


TEMPLATES = """\
templates:
  wide: {model: {d_ff: 64, encoder: {num_layers: 4}}, assumed: [model.d_ff]}
  deep: {model: {encoder: {num_layers: 6}}, assumed: [model.encoder.num_layers]}
"""


def test_templates_merge_in_the_order_they_are_named_and_the_row_onto_them(spec) -> None:
    spec(name="base.yaml", head=MINIMAL.replace("rows:", TEMPLATES + "rows:"))
    path = spec(
        text="extends: base.yaml\ntemplates: {deep: {model: {encoder: {num_layers: 3}}}}\nrows:\n"
        "  both: {use: [wide, deep]}\n  other: {use: [deep, wide], assumed: [train], model: {d_ff: 48}}\n  none: {}\n"
    )
    found = {row.id.rsplit("/", 1)[1]: row for row in resolve(path)}
    sizes = {name: (row.spec.model.d_ff, row.spec.model.encoder.num_layers) for name, row in found.items() if row.spec}
    assert sizes == {"both": (64, 3), "other": (48, 4), "none": (32, 2)}, "a file's own template takes the place of the parent's"
    assert {name: row.assumed for name, row in found.items()} == {"both": ["model.d_ff"], "other": ["model.d_ff", "train"], "none": []}


def test_parent_has_the_same_seed_profile_and_overrides(spec) -> None:
    path = spec("  base: {}\n  child: {init_from: base, model: {encoder: {connection: {kind: dense}}}}\n")
    child = one(path, "child", seed=5, sets=["model.d_ff=40", "train.max_steps=3"])
    assert child.spec.init_from == child.parent.id == "demo/small/base"
    assert (child.parent.spec.seed, child.parent.spec.model.d_ff, child.parent.spec.train.max_steps) == (5, 40, 3)
    other = child.at(9)
    assert (other.spec.seed, other.parent.spec.seed, child.spec.seed) == (9, 9, 5)
    smoke = one(path, "child", profile="smoke")
    assert smoke.parent.spec.train == smoke.spec.train and smoke.parent.spec.data == smoke.spec.data


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model.n_head=8", "model.n_head: unknown key; .*did you mean num_heads"),
        ("modl.d_model=8", "did you mean model"),
        ("model.d_model", "expected KEY=VALUE"),
        ("seed=3", "use --seed"),
        ("init_from=x", "part of the row"),
        ("model.d_ff=!!int 3", "tags are not allowed"),
        ("model.d_ff=[", "not YAML"),
        ("model.regularizers.diversty.weight=1", "found 'diversty'; .*did you mean diversity"),
        ("model.encoder.layr.kind=x", "model.encoder.layr: unknown key"),
        ("optim.schedule.lr=1e-3", "by schedule noam, which takes .*factor; schedule.kind selects one with lr: inverse-sqrt"),
        ("optim.lr=1e-3", r"did you mean optim\.schedule\.lr\?"),
        ("model.d_ff=\x1b[31m", "U\\+001B"),
    ],
)
def test_bad_overrides_name_the_option(spec, text: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        resolve(spec(), sets=[text])
    assert len(caught.value.lines) == 1 and caught.value.lines[0].startswith("--set ") and caught.value.lines[0].isprintable()


def test_rungs_beyond_a_profile_are_dropped(spec) -> None:
    path = spec("  r: {train: {max_steps: 900}}\n")
    path.write_text(path.read_text().replace("rows:", "sweep: {seeds: [3, 4], scheduler: {kind: asha, rungs: [4, 400]}}\nrows:"))
    assert (sweep_of(path).scheduler.rungs, sweep_of(path).seeds) == ([4, 400], [3, 4])
    assert sweep_of(path, "smoke").scheduler.rungs == [4]
    own = spec(text="train: {max_steps: 40}\ncorpora: {toy-smoke: {train: {max_steps: 900}}}\n", name="own.yaml")
    assert sweep_of(path, str(own)).scheduler.rungs == [4, 400]


def test_shown_rows_come_back(spec) -> None:
    rows = (
        "  base: {expect: {bleu: 27.64, params: 88.0M}, label: 'no: \"quotes\" # €'}\n"
        "  mid: {init_from: base, model: {regularizers: [{kind: diversity, weight: 1}]}}\n"
        "  leaf: {init_from: mid, assumed: [model.norm], workers: 2, pinned: true, optim: {eps: 1e-9}}\n"
    )
    path = spec(rows)
    for options in ({}, {"seed": 7}, {"profile": "smoke"}, {"sets": ["model.d_ff=8"]}):
        for row in resolve(path, **options):  # type: ignore[arg-type]
            (again,) = resolve(spec(text=to_yaml(row), name="shown.yaml"))
            assert again.spec == row.spec and to_yaml(again) == to_yaml(row)
            for field in ("id", "label", "expect", "assumed", "workers", "pinned"):
                assert getattr(again, field) == getattr(row, field), field
            assert (again.parent and again.parent.spec) == (row.parent and row.parent.spec)


def test_a_shown_row_takes_overrides_profile_and_seed(spec) -> None:
    file = spec(text=to_yaml(one(spec("  base: {}\n  leaf: {init_from: base}\n"), "leaf")), name="shown.yaml")
    (row,) = resolve(file, sets=["model.d_ff=8"], seed=4, profile="smoke")
    assert (row.spec.model.d_ff, row.spec.seed, row.parent.spec.model.d_ff, row.parent.spec.seed) == (8, 4, 8, 4)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("num_heads", "num_heds", "did you mean num_heads"), ("id: demo/small/leaf", "id: ../x", "expected paper/table/row"),
        ("kind: run", "kind: quoted", "of kind quoted with a spec"), ("seed: 1", "seed: -1", "expected a whole number >= 0"),
        ("init_from: demo/small/base", "init_from: demo/small/none", "not among the file's parents"),
    ],
)  # fmt: skip
def test_a_damaged_shown_row(spec, old: str, new: str, message: str) -> None:
    text = to_yaml(one(spec("  base: {}\n  leaf: {init_from: base}\n"), "leaf"))
    assert old in text
    with pytest.raises(UserError, match=message):
        resolve(spec(text=text.replace(old, new, 1), name="shown.yaml"))


@pytest.mark.parametrize(
    ("target", "rows"),
    [
        ("mlrf2018/table2/row13,row9", ["row9", "row13"]),
        ("mlrf2018/table2/row1*,row9", ["row1", "row9", *(f"row{i}" for i in range(10, 20)), "row19-w1-hop", "row19-hops-16"]),
        ("shen2018/table1/*/de-en-e256", [f"row{i}/de-en-e256" for i in range(1, 7)]),
        ("search_spaces/shen2018/table1.yaml#row1/de*,row2/tr-en-e64", [*(f"row1/de-en-e{e}" for e in (64, 128, 256)), "row2/tr-en-e64"]),
    ],
)
def test_an_address_of_several_rows(target: str, rows: list[str], monkeypatch) -> None:
    monkeypatch.chdir(Path(__file__).parents[3])
    assert [row.id.split("/", 2)[2] for row in resolve(target)] == rows


def test_a_bad_address_of_several_rows() -> None:
    assert "mlrf2018/table2/rwo9,row13: no such row: 'rwo9'" in refused(resolve, "mlrf2018/table2/rwo9,row13")[0]
    assert "no such row: 'row[1]/*'" in refused(resolve, "shen2018/table1/row[1]/*,row2/*-e64")[0]
    assert "found no file and no address" in refused(resolve, "mlrf2018/*")[0]


def test_quoted_rows_have_no_spec_and_runs_are_bounded(spec) -> None:
    quoted, run = resolve(spec("  q: {kind: quoted, expect: {bleu: 20.73, params: 65M}}\n  r: {}\n"))
    assert quoted.spec is None and run.spec is not None
    assert [(row.id, seed) for row, seed in runs([quoted, run], [1, 2])] == [("demo/small/r", 1), ("demo/small/r", 2)]
    with pytest.raises(UserError, match="expected at most 20000"):
        runs(resolve(spec()), list(range(MAX_RUNS + 1)))


def test_a_row_is_compared_with_the_one_that_its_file_names(spec) -> None:
    """On its corpus alone; where it is not among the rows, with none; `--baseline` comes first."""
    path = spec(
        "  base: {pinned: true}\n  small: {model: {d_ff: 8}}\n  fused: {compare_with: small, model: {d_ff: 8}}\n"
        "  grown: {init_from: base, compare_with: small}\n  other: {compare_with: small, data: {corpus: toy-large}}\n"
    )
    rows = resolve(path)

    def compared(rows: list[Row], base: str | None = None) -> dict[str, str]:
        return {row.rpartition("/")[2]: start.rpartition("/")[2] for row, start in starts(rows, base).items()}

    assert compared(rows) == {"small": "base", "fused": "small", "grown": "small"}
    assert compared([row for row in rows if not row.id.endswith("small")]) == {}
    assert compared(rows, "demo/small/base") == {"small": "base", "fused": "base", "grown": "base"}
    merged = starts(resolve("wei2020/table2/row1/*,row3/*", profile="smoke"))
    assert [start.split("/", 2)[2] for start in merged.values()] == ["row1/en-de", "row1/de-en", "row1/en-fr"], "in its language pair"
