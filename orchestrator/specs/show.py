"""Writes a resolved row as self-contained YAML, and reads it back."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import yaml

from orchestrator.errors import UserError
from orchestrator.safe_text import visible
from orchestrator.specs import check, controls, scorings, yaml_file
from orchestrator.specs.overrides import Override, for_parent
from orchestrator.specs.parsed_table import TableFile
from orchestrator.specs.positions import KeyPath, Located, shown
from orchestrator.specs.resolver import Resolver
from orchestrator.specs.row import Row, as_data
from orchestrator.specs.schema import RunSpec, ScoreSpec
from orchestrator.specs.scorings import Figures
from orchestrator.specs.table import SEGMENT_WORDS, SingleHead, segments
from orchestrator.specs.table_file import head_of

_OWN = ("seed", "init_from")


def to_yaml(row: Row) -> str:
    """Returns the YAML of a row, its spec and the specs of its parents; `resolve` reads it back to the same spec."""
    return dumped(as_plain(row))


def as_plain(row: Row) -> dict[str, Any]:
    """Returns a row, its spec and the specs of its parents as plain data."""
    data = as_data(row)
    data["spec"] = row.spec.model_dump() if row.spec is not None and row.kind == "run" else None
    parents: dict[str, Any] = {}
    parent = row.parent
    while parent is not None and parent.spec is not None:
        parents[parent.id] = parent.spec.model_dump()
        parent = parent.parent
    if parents:
        data["parents"] = parents
    return data


def read_single(table: TableFile, resolver: Resolver, seed: int | None) -> Row:
    """Returns the row in a file printed by `show`, resolved with its parents. Raises UserError with every problem."""
    document, problems = table.document, list(table.problems)
    head = head_of(document, (), SingleHead, list(document.data), problems)
    if head is None:
        raise UserError(*problems)
    control = controls.of_address(head.id)
    addresses: dict[KeyPath, str] = {("of", i): address for i, address in enumerate(head.of)}
    for path, address in ({("id",): head.id} | addresses if control is None else addresses).items():
        if not segments(address, 3, 4):
            problems.append(document.at(path).line(f"found '{shown(address)}'; expected paper/table/row: {SEGMENT_WORDS} each"))
    if (head.spec is None) == (head.kind == "run"):
        problems.append(document.at(("kind",)).line(f"found a row of kind {head.kind} {'without' if head.spec is None else 'with'} a spec"))
    figures = scorings.of_row(Figures(), document, (), head, problems)
    spec: RunSpec | None = None
    parent: Row | None = None
    also: dict[str, ScoreSpec] = {}
    if head.spec is not None:
        chain = _chain(table, head.spec.get("init_from"), ())
        levels: dict[str, tuple[KeyPath, list[Override]]] = {"": (("spec",), resolver.sets)}
        data: Any = head.spec
        for address in chain:
            _, sets = list(levels.values())[-1]
            levels[address] = ("parents", address), for_parent(sets, data, head.parents[address])
            data = head.parents[address]
        levels |= {address: (("parents", address), []) for address in head.parents if address not in levels}
        specs = {address: _spec(table, path, resolver, sets, problems) for address, (path, sets) in levels.items()}
        for address in reversed(chain):
            parent = Row(address, address, "run", specs[address], {}, [], 1, False, document.file, 1, parent)
        spec = specs[""]
    try:
        also = {} if spec is None else resolver.also(figures, spec)
    except UserError as error:
        problems += error.lines
    if problems:
        raise UserError(*dict.fromkeys(problems))
    row = Row(head.id, head.label, head.kind, spec, head.expect, head.assumed, head.workers, head.pinned, document.file, 1, parent)
    row = replace(row, also=also, means=dict(figures.means.data), of=head.of, analysis=head.analysis, note=head.note)
    row = replace(row, significance=head.significance, failed_below=resolver.bound(head.failed_below), control=control)
    return row if seed is None else row.at(seed)


def _spec(table: TableFile, path: KeyPath, resolver: Resolver, sets: list[Override], problems: list[str]) -> RunSpec | None:
    located = Located.of(table.document, path)
    seed, init_from = (located.data.pop(name, None) for name in _OWN)
    if not isinstance(seed, int) or isinstance(seed, bool) or seed < 0:
        problems.append(located.at(("seed",)).line("found no seed; expected a whole number >= 0"))
        seed = 0
    if init_from is not None and (not isinstance(init_from, str) or init_from not in (table.document.data.get("parents") or {})):
        problems.append(located.at(("init_from",)).line("found a row that is not among the file's parents"))
        init_from = None
    home = table.document.at(path)
    whole = Located(check.defaults(), home).merged(Located(located.data, home, located.positions))
    try:
        return resolver.spec(whole, sets, init_from).model_copy(update={"seed": seed})
    except UserError as error:
        problems += error.lines
        return None


def _chain(table: TableFile, address: Any, seen: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the addresses of the parents, the nearest first."""
    parents = table.document.data.get("parents") or {}
    if not isinstance(address, str) or address not in parents:
        return seen
    if address in seen:
        raise UserError(f"{table.document.file}:1: parents: found a circle through {address}")
    return _chain(table, parents[address].get("init_from"), (*seen, address))


def dumped(data: Any) -> str:
    """Returns YAML with printable characters as they are and all others escaped; escaped text is quoted, so it reads back the same."""
    text = yaml.dump(data, Dumper=Dumper, sort_keys=False, default_flow_style=None, allow_unicode=True, width=140)
    return "\n".join(map(visible, text.split("\n")))


class Dumper(yaml.SafeDumper):
    """Writes small lists and mappings on one line, floats as in YAML 1.2, and quotes text that would not read back as itself."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _float(dumper: yaml.SafeDumper, value: float) -> yaml.ScalarNode:
    mantissa, e, exponent = repr(value).partition("e")
    return dumper.represent_scalar("tag:yaml.org,2002:float", f"{mantissa}{'' if '.' in mantissa else '.0'}{e}{exponent}")


@functools.lru_cache(4096)
def _is_plain(value: str) -> bool:
    """Returns whether the text, unquoted, reads back as itself."""
    try:
        return yaml_file.parse(value, "").data == value and value.isprintable()
    except UserError:
        return False


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=None if _is_plain(value) else '"')


Dumper.add_representer(float, _float)
Dumper.add_representer(str, _text)
