"""Reads a table's YAML file and the files it extends: shared sections, row heads, each row's differences, and key positions."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from orchestrator.errors import UserError
from orchestrator.paths import in_search_spaces
from orchestrator.specs import claims, scorings, yaml_file
from orchestrator.specs import templates as row_templates
from orchestrator.specs.check import SECTIONS, defaults
from orchestrator.specs.corpus_files import make_absolute
from orchestrator.specs.grid.combinations import read_grid
from orchestrator.specs.messages import problems_of
from orchestrator.specs.parsed_table import ParsedRow, TableFile
from orchestrator.specs.positions import Document, KeyPath, Located, describe, display, nearest, shown
from orchestrator.specs.scorings import Figures
from orchestrator.specs.table import SEGMENT, SEGMENT_WORDS, RowHead, TableHead, segments
from orchestrator.specs.templates import Template, TemplateHead

MAX_PARENTS = 16
EXTERNAL = (("external", "data"), ("external", "score"))
"""Sections that a row of kind external has: its test set and how it is scored."""
H = TypeVar("H", bound=BaseModel)


def read(path: Path) -> TableFile:
    """Reads a file and the files it extends. Raises UserError if it is not readable YAML; other problems are collected in `problems`."""
    return _read(str(path), _stamp(path))


def _stamp(path: Path) -> tuple[int, int]:
    try:
        info = path.stat()
        return info.st_mtime_ns, info.st_size
    except (OSError, ValueError):
        return (0, 0)


@functools.lru_cache(maxsize=256)
def _read(text: str, stamp: tuple[int, int]) -> TableFile:
    path = Path(text)
    table = TableFile(path, load(path))
    if not table.is_single:
        _fill(table, ())
        if isinstance(table.document.data.get("grid"), dict):
            table.grid = read_grid(table.document, table.problems)
        table.problems += claims.problems_of(table.document, table.claims, table.rows)
    return table


def load(path: Path) -> Document:
    """Reads a table's YAML, with absolute paths of the corpora that it gives by path. Raises UserError like `yaml_file.load`."""
    document = yaml_file.load(path)
    make_absolute(document.data, path.parent)
    return document


def _fill(table: TableFile, chain: tuple[Path, ...]) -> None:
    document, data = table.document, table.document.data
    head, sections = _part(table, (), TableHead)
    table.shared.home = document.at(())
    if isinstance(data.get("extends"), str):
        _extend(table, data["extends"], chain)
    table.shared = table.shared.merged(sections)
    if head is not None:
        table.source, table.columns = head.source, head.expect_columns
        table.sweep, table.claims = head.sweep or table.sweep, head.claims
        table.assumed = list(dict.fromkeys([*table.assumed, *head.assumed]))
        table.figures = table.figures.merged(document, (), head)
    named = data.get("templates")
    for name in named if isinstance(named, dict) else ():
        _template(table, name, named[name])
    rows = data.get("rows")
    if isinstance(rows, dict):
        _names(table, rows)
        for name in rows:
            _row(table, name, rows[name])


def _part(table: TableFile, path: KeyPath, model: type[H]) -> tuple[H | None, Located]:
    """Returns the head of the mapping at `path`, None if it is invalid, and its sections."""
    document = table.document
    value: Any = functools.reduce(lambda part, name: part[name], path, document.data) or {}
    head = head_of(document, path, model, [n for n in value if n not in SECTIONS], table.problems, extra=SECTIONS)
    sections = Located.of(document, path, lambda name: name in SECTIONS)
    for name in [n for n, part in sections.data.items() if not isinstance(part, dict)]:
        table.problems.append(sections.at((name,)).line(f"found {describe(sections.data.pop(name))}; expected a mapping"))
    return head, sections


def _extend(table: TableFile, target: str, chain: tuple[Path, ...]) -> None:
    position = table.document.at(("extends",))
    path = in_search_spaces((table.path.parent / target).resolve()) if "\0" not in target else table.path
    chain = (*chain, table.path.resolve())
    if path in chain:
        table.problems.append(position.line(f"found {describe(target)}; expected a file that does not extend this one in turn"))
        return
    if len(chain) > MAX_PARENTS or Path(target).is_absolute():
        wanted = f"at most {MAX_PARENTS} files in a row" if len(chain) > MAX_PARENTS else "a path relative to this file"
        table.problems.append(position.line(f"found {describe(target)}; expected {wanted}"))
        return
    try:
        parent = TableFile(path, load(path))
    except UserError as error:
        missing = not path.is_file()
        known = [p.name for p in path.parent.glob("*.yaml")] if path.parent.is_dir() else []
        lines = [position.line(f"found {describe(target)}: no such file; {nearest(path.name, known)}")] if missing else error.lines
        table.problems += lines
        return
    if parent.is_single:
        table.problems.append(position.line(f"found {describe(target)}, one resolved row; expected a file with shared sections"))
        return
    _fill(parent, chain)
    table.problems += parent.problems
    table.shared, table.assumed, table.figures, table.templates = parent.shared, parent.assumed, parent.figures, parent.templates
    table.shared.home = table.document.at(())


def head_of(
    document: Document, path: tuple[str | int, ...], model: type[H], names: list[str], problems: list[str], extra: Any = ()
) -> H | None:
    """Validates the keys `names` of the mapping at `path` as `model`. Returns None and appends to `problems` if they are invalid.

    extra: further keys to suggest for an unknown key.
    """
    value: Any = functools.reduce(lambda part, name: part[name], path, document.data)
    try:
        return model.model_validate({name: value[name] for name in names})
    except ValidationError as error:
        for problem in problems_of(error, model, path):
            message = problem.message
            if message.startswith("unknown key") and len(problem.path) == len(path) + 1:
                message = f"unknown key; {nearest(str(problem.path[-1]), [*model.model_fields, *extra])}"
            problems.append(document.line(problem.path, message))
        return None


def _names(table: TableFile, rows: dict[str, Any]) -> None:
    seen: dict[str, str] = {}
    for name in rows:
        position = table.document.at(("rows", name))
        if not segments(name, 1, 2):
            table.problems.append(
                f"{position.where}: rows: found the row name '{shown(name)}'; expected {SEGMENT_WORDS}, with one / at most"
            )
        elif name.casefold() in seen:
            table.problems.append(position.line(f"found a name that differs only by case from {seen[name.casefold()]}; expected another"))
        seen.setdefault(name.casefold(), name)


def _template(table: TableFile, name: str, value: Any) -> None:
    position = table.document.at(("templates", name))
    if not SEGMENT.fullmatch(name):
        table.problems.append(f"{position.where}: templates: found the name '{shown(name)}'; expected {SEGMENT_WORDS}")
    elif not isinstance(value, dict):
        table.problems.append(position.line(f"found {describe(value)}; expected a mapping"))
    else:
        head, sections = _part(table, ("templates", name), TemplateHead)
        table.templates = table.templates | {name: Template(sections, [] if head is None else head.assumed)}


def _row(table: TableFile, name: str, value: Any) -> None:
    path, document = ("rows", name), table.document
    position = document.at(path)
    if not isinstance(value, (dict, type(None))):
        table.problems.append(position.line(f"found {describe(value)}; expected a mapping"))
        return
    valid, own = _part(table, path, RowHead)
    head = valid or RowHead()
    if first := next((name for name in own.data if head.kind != "run" and (head.kind, name) not in EXTERNAL), None):
        table.problems.append(own.at((first,)).line(f"found in a row of kind {head.kind}; expected only in rows of kind run"))
    base, assumed = row_templates.used(head.use, table.templates, document, path, table.shared, table.problems)
    head = head.model_copy(update={"assumed": [*assumed, *head.assumed]})
    figures = Figures() if valid is None else scorings.of_row(table.figures, document, path, head, table.problems)
    spec = base.merged(own)
    if head.kind == "external":  # it has no model and no training
        spec.data = defaults() | {"train": {"max_steps": 1}} | {part: spec.data[part] for part in ("data", "score") if part in spec.data}
    table.written[name] = ParsedRow(name, head, spec, position, figures)


def missing(path: Path) -> str:
    """Returns the message for a missing file, with the closest name in its folder."""
    folder = path.parent
    known = [p.name for p in folder.glob("*.yaml")] if folder.is_dir() else []
    close = nearest(path.name, known)
    hint = f"; did you mean {display(folder / close.rsplit('did you mean ', 1)[1].rstrip('?'))}?" if "did you mean" in close else ""
    return f"{display(path)}: no such file{hint}"
