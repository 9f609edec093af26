"""Every file of `search_spaces`: valid, complete, resolvable under every profile, and what `show` prints is the same row."""

from pathlib import Path

import pytest

from orchestrator.specs import index
from orchestrator.specs.rows import resolve, sweep_of
from tests.specs import shipped


def test_the_index_has_no_problems() -> None:
    tables, problems = index.tables()
    addresses = [f"{address}/{name}" for address, table in tables.items() for name in table.written]
    assert problems == [] and len(tables) == len(shipped.FILES)
    assert len({address.casefold() for address in addresses}) == len(addresses)


@pytest.mark.parametrize("path", shipped.FILES, ids=str)
def test_file_is_valid_and_says_how_to_run_it(path: Path) -> None:
    assert list(shipped.file_problems(path)) == []


@pytest.mark.parametrize("address", shipped.TABLES)
def test_every_profile_resolves_and_leaves_the_variants_alone(address: str) -> None:
    assert list(shipped.profile_problems(address)) == []


@pytest.mark.slow
@pytest.mark.parametrize("address", shipped.TABLES)
def test_show_is_self_contained(address: str, tmp_path) -> None:
    assert list(shipped.show_problems(address, tmp_path)) == []


@pytest.mark.parametrize("address", shipped.TABLES)
def test_rows_state_what_the_paper_reports_and_what_is_assumed(address: str) -> None:
    assert list(shipped.statement_problems(address)) == []


def test_the_quickstart_is_what_it_promises() -> None:
    rows = {row.id.rsplit("/", 1)[1]: row for row in resolve("search_spaces/quickstart.yaml")}
    assert set(rows) == {"baseline", "pre-norm", "transparent", "dlcl"} and rows["baseline"].pinned
    assert any(row.workers == 2 for row in rows.values()), "no row goes through Ray Train"
    assert len(sweep_of("search_spaces/quickstart.yaml").seeds) >= 3
