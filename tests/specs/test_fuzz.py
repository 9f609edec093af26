"""Damaged specs: an error that names file and line, or a valid spec; never a trace, never a key that is ignored."""

import copy
import functools
import random
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orchestrator.errors import UserError
from orchestrator.paths import SEARCH_SPACES
from orchestrator.specs import index, table_file
from orchestrator.specs import yaml_file as yaml_loader
from orchestrator.specs.profiles import parse_sets
from orchestrator.specs.resolver import check_written
from orchestrator.specs.rows import resolve
from orchestrator.specs.schema import RunSpec
from orchestrator.specs.show import to_yaml

FILES = [*index.table_files(), *sorted((SEARCH_SPACES / "base").glob("*.yaml"))]
EDITS = 8
PARTS = 6
ALPHABET = "abz019 .:-_{}[],#'\"\n\t&*!|>%@`~=\\/é\u2028\x00\x1b"
OF_GRIDS = 2
"""Edits of a file whose grid makes thousands of rows, which each takes about a second."""
NAMES_ARE_FREE = ("rows", "expect", "also", "means", "templates")


@pytest.fixture(scope="module")
def tree(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("fuzz") / "search_spaces"
    shutil.copytree(SEARCH_SPACES, place)
    return place


def attempt(path: Path) -> list[str]:
    """Error lines of a file; [] where it is valid."""
    try:
        table = table_file.read(path)
        check_written(table)
        if table.grid is not None:
            resolve(path)
    except UserError as error:
        assert error.lines
        for line in error.lines:
            assert "\n" not in line and line.isprintable(), line
            assert re.match(r".*\.yaml(:\d+)?: .", line), line
        return error.lines
    return []


@pytest.mark.parametrize(
    "original", [pytest.param(p, id=p.stem, marks=[pytest.mark.slow] * ("\ngrid:" in p.read_text(encoding="utf-8"))) for p in FILES]
)
def test_single_character_edits(original: Path, tree: Path) -> None:
    path = tree / original.relative_to(SEARCH_SPACES)
    rows = "rows: {r: {}}\n" if original.parent.name == "base" else ""
    text, rng = original.read_text(encoding="utf-8") + rows, random.Random(original.stem)
    for _ in range(OF_GRIDS if "\ngrid:" in text else EDITS):
        at, new = rng.randrange(len(text)), rng.choice(ALPHABET)
        cut = rng.choice((0, 1))
        path.write_bytes((text[:at] + (new if cut == 0 or rng.random() < 0.7 else "") + text[at + cut :]).encode())
        attempt(path)
    path.write_text(original.read_text(encoding="utf-8"), encoding="utf-8")


def named(path: tuple[Any, ...]) -> tuple[str, ...]:
    """A key's place without the names that a file is free to give: of rows, figures, axes and their values."""
    parts = [str(part) for part in path if not isinstance(part, int)]
    for at, part in enumerate(path[:-1]):
        if part in NAMES_ARE_FREE or path[: at + 1] == ("grid", "axes"):
            parts = [name if name != path[at + 1] else "*" for name in parts]
    if path[:2] == ("grid", "axes") and len(path) == 5 and path[3] in ("grid", "words"):
        parts[-1] = "*"
    return tuple(parts)


@functools.cache
def distinct_keys() -> list[tuple[Path, int, str]]:
    """(file, line, key): every key that any file has at a place of its own, in the smallest file that has it there."""
    found: dict[tuple[str, ...], tuple[Path, int, str]] = {}
    for original in sorted(FILES, key=lambda path: path.stat().st_size):
        positions = yaml_loader.load(original).positions.items()
        keys = [(path, position) for path, position in positions if path and isinstance(path[-1], str) and named(path)[-1:] != ("*",)]
        new = [(path, position) for path, position in keys if named(path) not in found]
        if ("grid",) in dict(positions):
            new = random.Random(1).sample(new, min(len(new), 2 * OF_GRIDS))
        found |= {named(path): (original, int(position.where.rpartition(":")[2]), path[-1]) for path, position in new}
    return list(found.values())


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_no_misspelt_key_is_ignored(part: int, tree: Path) -> None:
    keys = distinct_keys()
    assert len(keys) > 150
    for original, number, key in keys[part::PARTS]:
        if original.parent.name == "base" and key == "kind":
            continue
        path = tree / original.relative_to(SEARCH_SPACES)
        text = original.read_text(encoding="utf-8")
        lines = text.split("\n")
        bare = re.sub(r'"[^"]*"', lambda found: " " * len(found[0]), lines[number - 1]).split("#")[0]
        match = re.search(rf"(?<![\w-]){re.escape(key)}:(?=\s|$)", bare)
        if match is None:
            continue  # a quoted key
        lines[number - 1] = lines[number - 1][: match.end() - 1] + "q" + lines[number - 1][match.end() - 1 :]
        rows = "\nrows: {r: {}}\n" if original.parent.name == "base" and "rows:" not in text else ""
        path.write_text("\n".join(lines) + rows, encoding="utf-8")
        found = attempt(path)
        path.write_text(text, encoding="utf-8")
        assert found, f"{original.name}: {key}q of line {number} was ignored"


words = st.sampled_from(["pre", "bpe", "hierarchical", "toy-smoke", 1e-4])
scalars = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8), words)
NAMES = "kind rows data model optim train sweep encoder connection regularizers extends init_from expect spec id"
keys = st.one_of(st.text(min_size=1, max_size=6), st.sampled_from(NAMES.split()))
trees = st.recursive(scalars, lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(keys, inner, max_size=5)), max_leaves=20)


@pytest.mark.slow
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(content=trees)
def test_any_tree(content, tree: Path) -> None:
    path = tree / "any.yaml"
    path.write_text(yaml.safe_dump(content, allow_unicode=True), encoding="utf-8")
    try:
        resolve(path)
    except UserError as error:
        assert error.lines and all(line.isprintable() for line in error.lines)


def places(value, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every path of a nested value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(p for name, inner in items for p in places(inner, (*path, name)))]


@functools.cache
def a_row():
    return yaml_loader.parse(to_yaml(resolve("dou2018/table1/row9")[0]), "f").data


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_any_value_at_any_place_of_a_resolved_row(data: st.DataObject, tree: Path) -> None:
    content = copy.deepcopy(a_row())
    at = data.draw(st.sampled_from(places(content)[1:]))
    target = content
    for part in at[:-1]:
        target = target[part]
    target[at[-1]] = data.draw(trees)
    path = tree / "one.yaml"
    path.write_text(yaml.safe_dump(content, allow_unicode=True), encoding="utf-8")
    try:
        (row,) = resolve(path)
        assert row.spec is None or RunSpec.model_validate(row.spec.model_dump()) == row.spec
    except UserError as error:
        assert error.lines and all(line.isprintable() for line in error.lines)


SETTINGS = st.builds("{}={}".format, st.sampled_from(["model.d_ff", "model.regularizers.0.weight"]), st.text(max_size=9))


@settings(max_examples=200, deadline=None)
@given(text=st.one_of(st.text(max_size=30), SETTINGS))
def test_any_override(text: str) -> None:
    try:
        sets = [override.text for override in parse_sets([text])]
        resolve("dou2018/table1/row9", sets=sets)
    except UserError as error:
        assert all(line.isprintable() and line.startswith("--set") for line in error.lines), error.lines


@settings(max_examples=100, deadline=None)
@given(text=st.text(max_size=30))
def test_any_address(text: str) -> None:
    try:
        resolve(text)
    except UserError as error:
        assert all(line.isprintable() for line in error.lines), error.lines
