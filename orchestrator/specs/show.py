"""Writes a resolved row as self-contained YAML, and reads it back."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import yaml

from orchestrator.errors import UserError
from orchestrator.safe_text import visible
from orchestrator.specs import check, controls, overrides, scorings, yaml_file
from orchestrator.specs.parsed_table import TableFile
from orchestrator.specs.positions import Located, shown
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
    data["spec"] = None if row.spec is None else row.spec.model_dump()
    parents: dict[str, Any] = {}
    parent = row.parent
    while parent is not None and parent.spec is not None:
        parents[parent.id] = parent.spec.model_dump()
        parent = parent.parent
    if parents:
        data["parents"] = parents
    return data


def read_single(table: TableFile, resolver: Resolver | None, seed: int | None) -> Row:
    """Returns the row in a file printed by `show`. Raises UserError with every problem."""
    document, problems = table.document, list(table.problems)
    head = head_of(document, (), SingleHead, list(document.data), problems)
    if head is None:
        raise UserError(*problems)
    control = controls.of_address(head.id)
    if control is None and not segments(head.id, 3, 4):
        problems.append(document.at(("id",)).line(f"found '{head.id[:80]}'; expected paper/table/row: {SEGMENT_WORDS} each"))
    problems += [
        document.at(("of", i)).line(f"found '{shown(address)}'; expected paper/table/row: {SEGMENT_WORDS} each")
        for i, address in enumerate(head.of)
        if not segments(address, 3, 4)
    ]
    if (head.spec is None) == (head.kind == "run"):
        problems.append(document.at(("kind",)).line(f"found a row of kind {head.kind} {'without' if head.spec is None else 'with'} a spec"))
    specs = {address: _spec(table, ("parents", address), problems) for address in head.parents}
    spec = _spec(table, ("spec",), problems) if head.spec is not None else None
    figures = scorings.of_row(Figures(), document, (), head, problems)
    also: dict[str, ScoreSpec] = {}
    if spec is not None:
        also, found = scorings.resolve(figures.also, spec)
        problems += found
    if problems:
        raise UserError(*dict.fromkeys(problems))
    row = Row(head.id, head.label, head.kind, spec, head.expect, head.assumed, head.workers, head.pinned, document.file, 1)
    row = replace(row, also=also, means=dict(figures.means.data), of=head.of, analysis=head.analysis, note=head.note)
    row = replace(row, significance=head.significance, failed_below=head.failed_below, control=control)
    row = replace(row, parent=_chain(table, row, specs, ()))
    if resolver is not None:
        row = _reapply(table, row, resolver, ("spec",), resolver.sets)
        row = (
            row if row.spec is None else replace(row, also=resolver.also(figures, row.spec), failed_below=resolver.bound(row.failed_below))
        )
    return row if seed is None else row.at(seed)


def _spec(table: TableFile, path: tuple[str, ...], problems: list[str]) -> RunSpec | None:
    located = Located.of(table.document, path)
    seed, init_from = (located.data.pop(name, None) for name in _OWN)
    whole = seed if isinstance(seed, int) and not isinstance(seed, bool) and seed >= 0 else None
    if whole is None:
        problems.append(located.at(("seed",)).line("found no seed; expected a whole number >= 0"))
    if init_from is not None and (not isinstance(init_from, str) or init_from not in (table.document.data.get("parents") or {})):
        problems.append(located.at(("init_from",)).line("found a row that is not among the file's parents"))
        init_from = None
    home = table.document.at(path)
    base = Located(check.defaults(), home, {})
    spec, found, _ = check.check(base.merged(Located(located.data, home, located.positions)), seed=whole or 0, init_from=init_from)
    problems += found
    return spec


def _chain(table: TableFile, row: Row, specs: dict[str, RunSpec | None], seen: tuple[str, ...]) -> Row | None:
    address = None if row.spec is None else row.spec.init_from
    if address is None:
        return None
    if address in seen:
        raise UserError(f"{table.document.file}:1: parents: found a circle through {address}")
    parent = Row(address, address, "run", specs[address], {}, [], 1, False, table.document.file, 1)
    return replace(parent, parent=_chain(table, parent, specs, (*seen, address)))


def _reapply(table: TableFile, row: Row, resolver: Resolver, path: tuple[str, ...], sets: list[overrides.Override]) -> Row:
    """Applies profile and overrides to a resolved row and its parents."""
    if row.spec is None:
        return row
    written = Located.of(table.document, path)
    data = row.spec.model_dump(exclude=set(_OWN))
    spec = resolver.spec(Located(data, written.home, written.positions), sets, row.spec.init_from).model_copy(
        update={"seed": row.spec.seed}
    )
    parent = row.parent
    if parent is not None and parent.spec is not None:
        reach = overrides.for_parent(sets, data, parent.spec.model_dump())
        parent = _reapply(table, parent, resolver, ("parents", parent.id), reach)
    return replace(row, spec=spec, parent=parent)


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
