"""Every file of `search_spaces`: valid, complete, resolvable under every profile, and what `show` prints is the same row."""

import functools
import re
from pathlib import Path

import pytest

from orchestrator.paths import profile_names
from orchestrator.specs import index, profiles, table_file
from orchestrator.specs.components import SLOTS
from orchestrator.specs.resolver import check_written, dotted_keys
from orchestrator.specs.row import Row
from orchestrator.specs.rows import resolve, sweep_of
from orchestrator.specs.show import to_yaml
from orchestrator.specs.table import FAILED, number
from orchestrator.sweeps.plan import Data, keys_for
from tests.specs import shipped
from tests.specs.shipped import NOT_THE_PAPERS, rows


def test_the_index_has_no_problems() -> None:
    tables, problems = index.tables()
    addresses = [f"{address}/{name}" for address, table in tables.items() for name in table.written]
    assert problems == [] and len(tables) == len(shipped.FILES)
    assert len({address.casefold() for address in addresses}) == len(addresses)


@pytest.mark.parametrize("path", shipped.FILES, ids=str)
def test_file_is_valid_and_says_how_to_run_it(path: Path) -> None:
    """The file is valid, has an address, and its header says how to run it and what that costs."""
    table = table_file.read(path)
    check_written(table)
    assert table.head.source is not None, "a shipped table has an address"
    header = re.match(r"(#.*\n)+", path.read_text(encoding="utf-8"))
    assert header and "nmt-ablate" in header[0] and "ost" in header[0], (
        "expected a comment at the top with the command and the expected cost"
    )


RECIPES = "sweeps/speedrun"
"""A table whose rows differ in what a profile sets."""


@pytest.mark.parametrize("address", shipped.TABLES)
def test_every_profile_resolves_and_leaves_the_variants_alone(address: str) -> None:
    """And keeps different rows different."""
    published = rows(address)
    for profile in profile_names():
        scaled = rows(address, profile)
        sweep_of(address, profile)
        for before, row in zip(published, scaled, strict=True):
            if row.spec is None or before.spec is None:
                continue
            assert row.spec.seed == 3 and (row.parent is None) == (row.spec.init_from is None), f"{row.id}: {profile} loses seed or parent"
            now, then = variant(row), variant(before)
            changed = [key for key in then if now[key] != then[key] and key not in stated(profile, before.spec.data.corpus)]
            assert not changed, f"{row.id}: profile {profile} changes the variant"
        assert address == RECIPES or len(different(scaled)) == len(different(published)), f"profile {profile} makes rows equal that differ"


@functools.cache
def stated(name: str, corpus: str) -> set[str]:
    """What the file of a profile says that it changes for rows that are published on this corpus."""
    profile = profiles.load(name)[0].of(corpus)
    changes = {"dropout": profile.dropout < 1, "schedule": "schedule" in profile.optim}
    changes |= {"checkpoint": "checkpoint" in profile.decode, "search": "length_penalty" in profile.decode}
    return {key for key, is_stated in changes.items() if is_stated}


def different(rows: list[Row]) -> set[str]:
    """Distinct specs, apart from the corpus and the test sets, which a profile sets for a whole table."""
    return {
        row.spec.model_dump_json(exclude={"seed", "data", "init_from", "score"}) + str(row.spec.score.test == "valid")
        for row in rows
        if row.spec is not None
    }


def variant(row: Row) -> dict[str, object]:
    """What a profile must leave alone: components without their widths, depth, heads, norm, embeddings, objective."""
    model = row.spec.model.model_dump()
    found: dict[str, object] = {key: model[key] for key in ("num_heads", "norm", "embeddings", "dropout", "init", "activation")}
    for slot in SLOTS:
        value = model
        for part in slot:
            value = value[part]
        found["/".join(map(str, slot))] = value and {k: v for k, v in value.items() if not k.startswith("d_") and k != "widths"}
    found["regularizers"] = model["regularizers"]
    found["depth"] = [model[side]["num_layers"] for side in ("encoder", "decoder")]
    found["optim"] = [row.spec.optim.label_smoothing, row.spec.optim.restart is None]
    found |= {"schedule": row.spec.optim.schedule.kind, "checkpoint": row.spec.decode.checkpoint}
    found["search"] = [row.spec.decode.length_penalty, row.spec.score.metric]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("address", shipped.TABLES)
def test_show_is_self_contained(address: str, tmp_path) -> None:
    """What `show` prints of a row is, read alone, the same row with the same keys; the first row also under a profile and `--set`."""
    first, last, path = rows(address)[0], rows(address)[-1], tmp_path / "row.yaml"
    assert resolve(last.id) == [last] and resolve(first.id) == [first], "a row is another by its own address"
    for row in [*rows(address), *resolve(first.id, profile="smoke", seed=2, sets=["train.validate_every=2"])]:
        path.write_text(to_yaml(row), encoding="utf-8")
        (again,) = resolve(path)
        for name in ("spec", "expect", "assumed", "also", "means", "of", "analysis", "note"):
            assert getattr(again, name) == getattr(row, name), f"{row.id}: `show` loses {name}"
        assert row.spec is None or keys_for(again, Data(None)) == keys_for(row, Data(None)), row.id


@pytest.mark.parametrize("address", shipped.TABLES)
def test_rows_state_what_the_paper_reports_and_what_is_assumed(address: str) -> None:
    """`assumed` names keys of the spec; a row of a paper's table has the reported figures, or says that it is not the paper's."""
    for row in rows(address):
        for assumed in row.assumed if row.spec is not None else ():
            of_a_base = row.spec.optim.restart is None and assumed.startswith("optim.restart.")
            assert of_a_base or assumed in dotted_keys(row.spec.model_dump()), f"{row.id}: assumed: {assumed} is no key of the spec"
        values = [value for value in row.expect.values() if value is not None and not isinstance(value, bool) and value != FAILED]
        assert all(isinstance(number(value), float | int) for value in values), f"{row.id}: expect: {values} are not all numbers"
        paper, table = row.id.split("/")[:2]
        lost = row.id == "hao2019/text/significance" and "lacks" in row.note
        plotted = table.startswith("fig")  # a figure's values are plotted without numbers
        assert paper not in shipped.papers() or row.expect or plotted or lost or NOT_THE_PAPERS in row.label, (
            f"{row.id}: other rows of {paper} have `expect`; expected `expect` here too, or '{NOT_THE_PAPERS}' in the label"
        )


def test_the_quickstart_is_what_it_promises() -> None:
    rows = {row.id.rsplit("/", 1)[1]: row for row in resolve("search_spaces/quickstart.yaml")}
    assert set(rows) == {"baseline", "pre-norm", "transparent", "dlcl"} and rows["baseline"].pinned
    assert any(row.workers == 2 for row in rows.values()), "no row goes through Ray Train"
    assert len(sweep_of("search_spaces/quickstart.yaml").seeds) >= 3
