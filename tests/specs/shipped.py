"""What every table under `search_spaces` must satisfy. Each check takes a table and lists its problems, by file or row."""

import functools
import re
from collections.abc import Iterator
from pathlib import Path

from orchestrator.errors import UserError
from orchestrator.paths import profile_names
from orchestrator.specs import index, profiles, table_file
from orchestrator.specs.components import SLOTS
from orchestrator.specs.resolver import check_written
from orchestrator.specs.row import Row
from orchestrator.specs.rows import resolve, sweep_of
from orchestrator.specs.show import to_yaml
from orchestrator.specs.table import FAILED, number
from orchestrator.sweeps.plan import Data, keys_for

NOT_THE_PAPERS = "not in the paper"
"""Stands in the label of a row of our own in a paper's table."""

FILES = index.table_files()
TABLES = sorted(address for address, table in index.tables()[0].items() if table.grid is None)
"""Addresses. Tables with a grid are left to test_fusion_grid."""


@functools.cache
def rows(address: str, profile: str | None = None) -> list[Row]:
    return resolve(address, profile=profile, seed=None if profile is None else 3)


@functools.cache
def papers() -> frozenset[str]:
    """Papers whose tables state reported figures; other folders hold tables of one's own."""
    return frozenset(address.split("/")[0] for address in TABLES if any(row.expect for row in rows(address)))


def file_problems(path: Path) -> Iterator[str]:
    """The file is valid, has an address, and its header says how to run it and what that costs."""
    try:
        table = table_file.read(path)
        check_written(table)
    except UserError as error:
        yield from error.lines
        return
    if table.head.source is None:
        yield f"{path.name}: a shipped table has an address; expected `source`"
    header = re.match(r"(#.*\n)+", path.read_text(encoding="utf-8"))
    if header is None or "nmt-ablate" not in header[0] or "ost" not in header[0]:
        yield f"{path.name}: expected a comment at the top with the command and the expected cost"


RECIPES = "sweeps/speedrun"
"""A table whose rows differ in what a profile sets."""


def profile_problems(address: str) -> Iterator[str]:
    """Every profile resolves, leaves the variants alone, and keeps different rows different."""
    published = rows(address)
    for profile in profile_names():
        scaled = rows(address, profile)
        sweep_of(address, profile)
        for before, row in zip(published, scaled, strict=True):
            if row.spec is None or before.spec is None:
                continue
            if row.spec.seed != 3 or (row.parent is None) != (row.spec.init_from is None):
                yield f"{row.id}: profile {profile}: seed or parent are lost"
            now, then = variant(row), variant(before)
            if changed := [key for key in then if now[key] != then[key] and key not in stated(profile, before.spec.data.corpus)]:
                yield f"{row.id}: profile {profile} changes the variant: {changed}"
        if address != RECIPES and len(different(scaled)) != len(different(published)):
            yield f"{address}: profile {profile} makes rows equal that differ"


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


def show_problems(address: str, folder: Path) -> Iterator[str]:
    """What `show` prints of a row is, read alone, the same row with the same keys; the first row also under a profile and `--set`."""
    first = rows(address)[0].id
    changed = resolve(first, profile="smoke", seed=2, sets=["train.validate_every=2"])
    if resolve(rows(address)[-1].id) != [rows(address)[-1]] or resolve(first) != [rows(address)[0]]:
        yield f"{address}: a row is another by its own address"
    for row in [*rows(address), *changed]:
        path = folder / "row.yaml"
        path.write_text(to_yaml(row), encoding="utf-8")
        (again,) = resolve(path)
        for name in ("spec", "expect", "assumed", "also", "means", "of", "analysis", "note"):
            if getattr(again, name) != getattr(row, name):
                yield f"{row.id}: `show` loses {name}"
        if row.spec is not None and keys_for(again, Data(None)) != keys_for(row, Data(None)):
            yield f"{row.id}: what `show` prints has other keys"


def statement_problems(address: str) -> Iterator[str]:
    """`assumed` names keys of the spec; a row of a paper's table has the reported figures, or says that it is not the paper's."""
    for row in rows(address):
        for assumed in row.assumed if row.spec is not None else ():
            if not is_key(row.spec.model_dump(), assumed):  # type: ignore[union-attr]
                yield f"{row.id}: assumed: {assumed} is no key of the spec"
        values = [value for value in row.expect.values() if value is not None and not isinstance(value, bool) and value != FAILED]
        if not all(isinstance(number(value), float | int) for value in values):
            yield f"{row.id}: expect: {values} are not all numbers"
        paper, table = row.id.split("/")[:2]
        lost = row.id == "hao2019/text/significance" and "lost" in row.note
        plotted = table.startswith("fig")  # a figure's values are plotted without numbers
        if paper in papers() and not (row.expect or plotted or lost or NOT_THE_PAPERS in row.label):
            yield f"{row.id}: expected `expect` with the paper's figures, or {NOT_THE_PAPERS!r} in the label"


def is_key(spec, dotted: str) -> bool:
    for part in dotted.split("."):
        if isinstance(spec, list):
            spec = spec[0]
        if spec is None:
            return dotted.startswith("optim.restart.")  # assumed by the base of a row that has no restart
        if not isinstance(spec, dict) or part not in spec:
            return False
        spec = spec[part]
    return True
