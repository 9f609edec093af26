"""Every file of `search_spaces`: valid, complete, resolvable under every profile, and what `show` prints is the same row."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.paths import SEARCH_SPACES
from orchestrator.specs import index, yaml_file
from orchestrator.specs.rows import resolve, sweep_of
from orchestrator.sweeps.parameters import params
from tests.specs import shipped


def test_the_index_has_no_problems() -> None:
    tables, problems = index.tables()
    addresses = [f"{address}/{name}" for address, table in tables.items() for name in table.written]
    assert problems == [] and len(tables) == len(shipped.FILES)
    assert len({address.casefold() for address in addresses}) == len(addresses)


def test_bases_have_no_rows() -> None:
    assert [path.name for path in (SEARCH_SPACES / "base").glob("*.yaml") if "rows" in yaml_file.load(path).data] == []


@pytest.mark.parametrize("path", shipped.FILES, ids=str)
def test_file_is_valid_and_says_how_to_run_it(path: Path) -> None:
    assert list(shipped.file_problems(path)) == []


@pytest.mark.parametrize("address", shipped.TABLES)
def test_every_profile_resolves_and_leaves_the_variants_alone(address: str) -> None:
    assert list(shipped.profile_problems(address)) == []


@pytest.mark.slow
@pytest.mark.parametrize("address", shipped.TABLES)
def test_show_is_self_contained(address: str, tmp_path: Path) -> None:
    assert list(shipped.show_problems(address, tmp_path)) == []


@pytest.mark.parametrize("address", shipped.TABLES)
def test_rows_state_what_the_paper_reports_and_what_is_assumed(address: str) -> None:
    assert list(shipped.statement_problems(address)) == []


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
    assert params(restart, 8389, 6428) == 10_974_748
