"""Every file of `search_spaces`: valid, complete, resolvable under every profile, and what `show` prints is the same row."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from orchestrator.paths import SEARCH_SPACES
from orchestrator.specs import index, profiles, table_file, yaml_file
from orchestrator.specs.components import SLOTS
from orchestrator.specs.failure import FAILED
from orchestrator.specs.resolver import written
from orchestrator.specs.row import Row
from orchestrator.specs.rows import resolve, sweep_of, validate
from orchestrator.specs.show import to_yaml
from orchestrator.specs.table import number
from orchestrator.sweeps.plan import Data, keys_for
from tests.specs.papers import OWN

FILES = index.table_files()
TABLES = sorted(address for address, table in index.tables()[0].items() if table.grid is None)  # grids: test_fusion_grid
ADDRESSES = [f"{address}/{name}" for address, table in index.tables()[0].items() for name in written(table)]


def test_the_index_has_no_problems() -> None:
    assert index.tables()[1] == [] and len(index.tables()[0]) == len(FILES)
    assert len({address.casefold() for address in ADDRESSES}) == len(ADDRESSES)


@pytest.mark.parametrize("path", FILES, ids=str)
def test_file_is_valid_and_says_how_to_run_it(path: Path) -> None:
    table = table_file.read(path)
    validate(table)
    assert table.source is not None, "a shipped table has an address"
    header = re.match(r"(#.*\n)+", path.read_text(encoding="utf-8"))
    assert header is not None and "nmt-ablate" in header[0] and "ost" in header[0], "header: table, command, expected cost"


@pytest.mark.parametrize("path", sorted((SEARCH_SPACES / "base").glob("*.yaml")), ids=lambda p: p.stem)
def test_base_has_no_rows(path: Path) -> None:
    assert "rows" not in yaml_file.load(path).data


@pytest.mark.parametrize("profile", [None, *profiles.names()])
@pytest.mark.parametrize("address", TABLES)
def test_rows_resolve(address: str, profile: str | None) -> None:
    published, rows = resolve(address), resolve(address, profile=profile, seed=3)
    sweep_of(address, profile)
    for before, row in zip(published, rows, strict=True):
        if row.spec is None or before.spec is None:
            continue
        assert row.spec.seed == 3 and (row.parent is None) == (row.spec.init_from is None)
        assert variant(row) == variant(before), "a profile never touches the variant"
    if profile is not None:
        assert len(different(rows)) == len(different(published)), "an axis that a table varies stays varied"


def different(rows: list[Row]) -> set[str]:
    """Distinct specs but for what a profile sets alike for all of a table: the corpus, and with it the test sets."""
    return {
        row.spec.model_dump_json(exclude={"seed", "data", "init_from", "score"}) + str(row.spec.score.test == "valid")
        for row in rows
        if row.spec is not None
    }


def variant(row: Row) -> dict[str, object]:
    """What a profile must leave alone: components without their widths, depth, heads, norm, embeddings, objective."""
    assert row.spec is not None
    model = row.spec.model.model_dump()
    found: dict[str, object] = {key: model[key] for key in ("num_heads", "norm", "embeddings", "dropout", "init", "activation")}
    for slot in SLOTS:
        value = model
        for part in slot:
            value = value[part]
        found["/".join(map(str, slot))] = value and {k: v for k, v in value.items() if not k.startswith("d_") and k != "widths"}
    found["regularizers"] = model["regularizers"]
    found["depth"] = [model[side]["num_layers"] for side in ("encoder", "decoder")]
    found["optim"] = [row.spec.optim.label_smoothing, row.spec.optim.restart is None, row.spec.optim.schedule.kind]
    found["search"] = [row.spec.decode.checkpoint, row.spec.decode.length_penalty, row.spec.score.metric]
    return found


@pytest.mark.parametrize("address", ADDRESSES)
def test_show_is_self_contained(address: str, tmp_path: Path) -> None:
    for options in ({}, {"profile": "smoke", "seed": 2, "sets": ["train.validate_every=2"]}):
        (row,) = resolve(address, **options)  # type: ignore[arg-type]
        path = tmp_path / "row.yaml"
        path.write_text(to_yaml(row), encoding="utf-8")
        (again,) = resolve(path)
        assert again.spec == row.spec and again.expect == row.expect and again.assumed == row.assumed
        assert (again.also, again.means, again.of, again.analysis, again.note) == (row.also, row.means, row.of, row.analysis, row.note)
        if row.spec is not None:
            assert keys_for(again, Data(None)) == keys_for(row, Data(None))


@pytest.mark.parametrize("address", ADDRESSES)
def test_assumptions_are_keys_of_the_spec(address: str) -> None:
    (row,) = resolve(address)
    if row.spec is None:
        return
    for assumed in row.assumed:
        value: object = row.spec.model_dump()
        for part in assumed.split("."):
            if isinstance(value, list):
                value = value[0]
            if value is None:
                assert assumed.startswith("optim.restart."), assumed  # of the base; this row has no restart
                break
            assert isinstance(value, dict) and part in value, assumed
            value = value[part]


@pytest.mark.parametrize("address", [a for a in ADDRESSES if not a.startswith(("quickstart", "sweeps")) and a not in OWN])
def test_rows_of_papers_carry_what_the_paper_reports(address: str) -> None:
    (row,) = resolve(address)
    plotted = row.id.split("/")[1].startswith("fig")
    lost = row.id == "hao2019/text/significance" and "lost" in row.note
    assert row.expect or plotted or lost, "only figures are plotted without numbers"
    assert all(
        value is None or isinstance(value, bool) or value == FAILED or isinstance(number(value), float | int)
        for value in row.expect.values()
    )


def test_the_quickstart_is_what_it_promises() -> None:
    rows = {row.id.rsplit("/", 1)[1]: row for row in resolve("search_spaces/quickstart.yaml")}
    assert {"baseline", "linear", "hierarchical", "hierarchical-diversity", "mlrf-fnn", "mlrf-self-attention"} <= set(rows)
    assert any(row.workers == 2 for row in rows.values()) and rows["baseline"].pinned
    sweep = sweep_of("search_spaces/quickstart.yaml")
    assert len(sweep.seeds) >= 2 and sweep.scheduler.kind == "asha" and sweep.scheduler.rungs


def test_table_1_reads_as_the_recipes_say() -> None:
    rows = {row.id.rsplit("/", 1)[1]: row for row in resolve("dou2018/table1")}
    base = rows["row1"].spec
    assert base is not None and rows["row1"].expect["params"] == "88.0M"
    assert (base.batch.size * base.batch.accumulate, base.optim.schedule.warmup, base.train.snapshots) == (32768, 4000, 5)
    assert (base.decode.beam_size, base.decode.length_penalty.alpha, base.score.metric, base.score.lowercase) == (
        4,
        0.6,
        "multi-bleu",
        False,
    )
    for name, row in rows.items():
        assert row.spec is not None and row.spec.init_from == (None if name == "row1" else "dou2018/table1/row1")
    assert [bool(rows[name].spec.model.regularizers) for name in ("row5", "row8", "row9", "row10")] == [False, True, True, True]  # type: ignore[union-attr]


def test_the_iwslt_base_reads_as_the_recipes_say(tmp_path: Path) -> None:
    path = tmp_path / "mlrf.yaml"
    base = (SEARCH_SPACES / "base" / "iwslt14-de-en.yaml").read_text(encoding="utf-8")
    path.write_text(base + "rows: {restart: {}, mle: {optim: {restart: null}, train: {max_epochs: 40}}}\n", encoding="utf-8")
    restart, mle = (row.spec for row in resolve(path))
    assert restart is not None and mle is not None and restart.optim.restart is not None and mle.optim.restart is None
    assert (restart.batch.size, restart.optim.restart.batch.size, restart.optim.restart.schedule.lr) == (80, 32, 5e-5)  # type: ignore[union-attr]
    from orchestrator.sweeps.parameters import params

    assert params(restart, 8389, 6428) == 10_974_748
