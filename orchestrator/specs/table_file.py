"""A table's YAML file before its specs are validated: shared sections, row heads, each row's differences, and the positions of keys.

With `templates: {e64: {model: {word_dim: 64}}}` and `use: [e64]` in a row, the templates merge in the given order onto the file's
sections, then the row's own keys merge onto the result.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from orchestrator.errors import UserError, collecting
from orchestrator.paths import in_search_spaces, profile_names
from orchestrator.specs import claims, yaml_file
from orchestrator.specs.check import SECTIONS, defaults
from orchestrator.specs.grid.combinations import Grid, apply, read_grid
from orchestrator.specs.messages import Model, validated
from orchestrator.specs.positions import Document, KeyPath, Located, Position, describe, nearest, no_such_file, shown
from orchestrator.specs.row import check_means, row_figures, with_figures
from orchestrator.specs.table import SEGMENT, SEGMENT_WORDS, RowHead, TableHead, TemplateHead, segments

MAX_PARENTS = 16
EXTERNAL = (("external", "data"), ("external", "score"))
"""Sections that a row of kind external has: its test set and how it is scored."""
_last: dict[Path, "TableFile"] = {}
"""File -> its table, as it was last read."""


class ParsedRow(NamedTuple):
    """A row before validation of its spec: head, merged sections, position, and the file's figures merged with its own."""

    name: str
    head: RowHead
    spec: Located
    position: Position
    figures: Located


class Template(NamedTuple):
    """Differences to the sections of a row. assumed: keys that the paper does not state."""

    spec: Located
    assumed: list[str]


@dataclass
class TableFile:
    """A parsed file. With problems, the fields may be incomplete. stamps: of the file and of all files it extends, taken before reading."""

    path: Path
    stamps: dict[Path, tuple[int, int] | None]
    document: Document
    head: TableHead = field(default_factory=TableHead)
    shared: Located = field(default_factory=lambda: Located(defaults(), Position("", ())))
    assumed: list[str] = field(default_factory=list)
    written: dict[str, ParsedRow] = field(default_factory=dict)
    templates: dict[str, Template] = field(default_factory=dict)
    figures: Located = field(default_factory=lambda: Located({}, Position("", ())))
    grid: Grid | None = None
    lacks_base: bool = False
    """Whether a file that it extends could not be read, so that keys and templates may be missing."""

    @property
    def problems(self) -> list[str]:
        return self.document.problems

    @property
    def rows(self) -> Mapping[str, ParsedRow]:
        """The rows written in the file, and one for each combination of its grid."""
        return self.written if self.grid is None else _GridRows(self, self.grid)

    @property
    def address(self) -> str:
        if (source := self.head.source) is not None:
            return f"{source.paper}/{source.table}"
        return f"local/{self.path.stem if SEGMENT.fullmatch(self.path.stem) else 'table'}"

    @property
    def is_single(self) -> bool:
        """Whether the file is a single resolved row printed by `show`."""
        return "spec" in self.document.data or "id" in self.document.data


class _GridRows(Mapping[str, ParsedRow]):
    """Row name -> row before validation: the rows written in the file, then the rows of its grid, which are built on request."""

    def __init__(self, table: TableFile, grid: Grid) -> None:
        self.table, self.grid = table, grid

    def __getitem__(self, name: str) -> ParsedRow:
        """Raises UserError if two axes set one key."""
        table, position = self.table, self.grid.position
        if name in table.written:
            return table.written[name]
        values = self.grid.combinations[name]
        spec = apply(values, table.shared)
        spec.home = Position(position.where, ("grid",))
        label = ", ".join(value.shown for value in values if value.id) or "as the file's sections"
        return ParsedRow(name, RowHead(label=label), spec, position, table.figures)

    def __contains__(self, name: object) -> bool:
        return name in self.table.written or name in self.grid.combinations

    def __iter__(self) -> Iterator[str]:
        yield from self.table.written
        yield from self.grid.combinations

    def __len__(self) -> int:
        return len(self.table.written) + len(self.grid.combinations)


def read(path: Path) -> TableFile:
    """Reads a file and the files it extends. Raises UserError if it is not readable YAML; other problems are collected in `problems`."""
    last = _last.get(path)
    if last is None or any(_stamp(file) != stamp for file, stamp in last.stamps.items()):
        last = _last[path] = _read(path)
    return last


def _stamp(path: Path) -> tuple[int, int] | None:
    return ((info := path.stat()).st_mtime_ns, info.st_size) if path.is_file() else None


def _read(path: Path) -> TableFile:
    table = TableFile(path, {path: _stamp(path)}, yaml_file.load(path))
    if not table.is_single:
        _fill(table, ())
        if isinstance(table.document.data.get("grid"), dict):
            table.grid = read_grid(table.document)
            check_means(table.figures, table.document)
        claims.check(table.document, table.rows)
        for at, profile in table.document.below("ladder").items():
            if isinstance(profile, str) and not profile.endswith(".yaml") and profile not in profile_names():
                table.document.wrong(at, f"found {shown(profile)!r}; {nearest(profile, profile_names())}")
        for at, name in table.document.below("control_rows").items():
            if isinstance(name, str) and name not in table.rows:
                table.document.wrong(at, f"found '{shown(name)}': no such row; {nearest(name, table.rows)}")
    return table


def _fill(table: TableFile, chain: tuple[Path, ...]) -> None:
    document, data = table.document, table.document.data
    head, sections = _part(table, (), TableHead)
    table.shared.home = document.at(())
    table.lacks_base = data.get("extends") is not None
    if isinstance(data.get("extends"), str):
        _extend(table, data["extends"], chain)
    table.shared = table.shared.merged(sections)
    if head is not None:
        table.head = head
        table.assumed = list(dict.fromkeys([*table.assumed, *head.assumed]))
    table.figures = with_figures(table.figures, document, ())
    for section, add in (("templates", _template), ("rows", _row)):
        named = data.get(section)
        for name, value in named.items() if isinstance(named, dict) else ():
            add(table, name, value)


def _part(table: TableFile, path: KeyPath, model: type[Model]) -> tuple[Model | None, Located]:
    """Returns the head of the mapping at `path`, None if it is invalid, and its sections."""
    head = validated(table.document, path, model, SECTIONS)
    sections = Located.of(table.document, path, lambda name: name in SECTIONS)
    for name in [n for n, part in sections.data.items() if not isinstance(part, dict)]:
        table.document.wrong((*path, name), f"found {describe(sections.data.pop(name))}; expected a mapping")
    return head, sections


def _extend(table: TableFile, target: str, chain: tuple[Path, ...]) -> None:
    path = in_search_spaces((table.path.parent / target).resolve()) if "\0" not in target else table.path
    chain, wrong = (*chain, table.path.resolve()), None
    table.stamps[path] = _stamp(path)
    if path in chain:
        wrong = "; expected a file that does not extend this one in turn"
    elif len(chain) > MAX_PARENTS:
        wrong = f"; expected at most {MAX_PARENTS} files in a row"
    elif Path(target).is_absolute():
        wrong = "; expected a path relative to this file"
    elif not path.is_file():
        above = path.parent.parent / path.name
        others = [os.path.relpath(above, table.path.parent.resolve())] if in_search_spaces(above).is_file() else []
        wrong = f": {no_such_file(path, *others)}"
    if wrong is not None:
        table.document.wrong(("extends",), f"found {describe(target)}{wrong}")
        return
    with collecting(table.problems):
        parent = TableFile(path, table.stamps, yaml_file.load(path))
        if parent.is_single:
            message = f"found {describe(target)}, one resolved row; expected a file with shared sections"
            raise UserError(table.document.at(("extends",)).line(message))
        _fill(parent, chain)
        table.problems.extend(parent.problems)
        table.shared, table.assumed, table.figures, table.templates = parent.shared, parent.assumed, parent.figures, parent.templates
        table.shared.home, table.lacks_base = table.document.at(()), parent.lacks_base


def _template(table: TableFile, name: str, value: Any) -> None:
    if not SEGMENT.fullmatch(name):
        where = table.document.at(("templates", name)).where
        table.problems.append(f"{where}: templates: found the name '{shown(name)}'; expected {SEGMENT_WORDS}")
    elif not isinstance(value, dict):
        table.document.wrong(("templates", name), f"found {describe(value)}; expected a mapping")
    else:
        head, sections = _part(table, ("templates", name), TemplateHead)
        table.templates = table.templates | {name: Template(sections, [] if head is None else head.assumed)}


def _row(table: TableFile, name: str, value: Any) -> None:
    path, document = ("rows", name), table.document
    position = document.at(path)
    if not segments(name, 1, 2):
        table.problems.append(f"{position.where}: rows: found the row name '{shown(name)}'; expected {SEGMENT_WORDS}, with one / at most")
    elif same := [other for other in table.written if other.casefold() == name.casefold()]:
        document.wrong(path, f"found a name that differs only by case from {same[0]}; expected another")
    if not isinstance(value, (dict, type(None))):
        document.wrong(path, f"found {describe(value)}; expected a mapping")
        return
    head, own = _part(table, path, RowHead)
    head = head or RowHead()
    if first := next((name for name in own.data if head.kind != "run" and (head.kind, name) not in EXTERNAL), None):
        document.wrong((*path, first), f"found in a row of kind {head.kind}; expected only in rows of kind run")
    base, assumed = table.shared, list[str]()
    for i, used in enumerate(head.use):
        if used in table.templates:
            base = base.merged(table.templates[used].spec)
            assumed += table.templates[used].assumed
        elif not table.lacks_base:
            document.wrong((*path, "use", i), f"found '{shown(used)}'; {nearest(used, table.templates)}")
    head = head.model_copy(update={"assumed": [*assumed, *head.assumed]})
    figures = row_figures(table.figures, document, path, head.kind)
    spec = base.merged(own)
    if head.kind == "external":  # it has no model and no training
        spec.data = defaults() | {"train": {"max_steps": 1}} | {part: spec.data[part] for part in ("data", "score") if part in spec.data}
    table.written[name] = ParsedRow(name, head, spec, position, figures)
