"""Index of tables: every YAML file under `search_spaces`, the product's and the user's own, except bases, data entries and profiles.

Files of tables that lie in the working folder itself belong to the index too.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from pathlib import Path

from orchestrator.errors import UserError
from orchestrator.files.documents import read_bytes
from orchestrator.paths import search_spaces
from orchestrator.specs import controls, table_file
from orchestrator.specs.parsed_table import TableFile
from orchestrator.specs.positions import display, shown
from orchestrator.specs.table import segments

_APART = ("base", "data", "profiles")
_ROWS = re.compile(rb"^(rows|grid):", re.MULTILINE)
_SEVERAL = re.compile("[,*]")


@dataclass(frozen=True)
class Target:
    """A table, and those of its rows that the user named; none: all. control: the parts of a matched control's name (`controls.split`)."""

    table: TableFile
    rows: tuple[str, ...] = ()
    control: tuple[str, str, str] | None = None

    @property
    def row(self) -> str | None:
        """The row if the user named one alone."""
        return self.rows[0] if len(self.rows) == 1 else None


def table_files() -> list[Path]:
    """Returns the files of the index: the product's, the user's own, those of the working folder; each sorted."""
    found = [path for folder in search_spaces() for path in sorted(folder.rglob("*.yaml")) if not _apart(path, folder)]
    here = sorted(path for path in Path().glob("[!.]*.yaml") if _ROWS.search(read_bytes(path) or b""))
    return list({path.resolve(): path for path in (*found, *here)}.values())


def _apart(path: Path, folder: Path) -> bool:
    return path.relative_to(folder).parts[0] in _APART


def tables() -> tuple[dict[str, TableFile], list[str]]:
    """Returns address -> table, and the problems of files that cannot be read or claim the address of another file."""
    found: dict[str, TableFile] = {}
    problems: list[str] = []
    for path in table_files():
        try:
            table = table_file.read(path)
        except UserError as error:
            problems += error.lines
            continue
        if table.address.casefold() in {address.casefold() for address in found}:
            problems.append(f"{table.document.file}:1: source: found {table.address}, the address of another file too")
        else:
            found[table.address] = table
    return found, problems


def find(text: str) -> Target:
    """Finds the table or row that `text` names. Raises UserError if there is none.

    Accepts `FILE.yaml`, `FILE.yaml#ROW`, `paper/table` and `paper/table/row[/part]`. The row may be a matched control,
    `row1@params=row5`, or several names with commas, in which `*` stands for any text: `row9,row1/*`.
    """
    name, _, row = text.partition("#")
    if name.endswith((".yaml", ".yml")) or Path(name).is_file() or Path(name).is_absolute() or name.startswith("."):
        return _in_file(Path(name), row or None, bool(_))
    parts = text.split("/")
    address = "/".join(parts[:2]) if any(map(_SEVERAL.search, parts[2:])) else text.partition("@")[0]
    if "#" in text or not segments(address, 2, 4):
        raise UserError(f"{shown(text, 200)}: found no file and no address; expected FILE.yaml, paper/table, paper/table/row or a folder")
    table = _by_file_name(*parts[:2])
    if table is None:
        known, problems = tables()
        table = known.get("/".join(parts[:2]))
    if table is None:
        raise UserError(f"{text}: no such table (a file elsewhere is FILE.yaml or FILE.yaml#ROW){_near(text, list(known), 2)}", *problems)
    if len(parts) == 2:
        return Target(table)
    return _in_table(table, "/".join(parts[2:]), text)


def _by_file_name(paper: str, name: str) -> TableFile | None:
    """Returns the table if its file is named like its address, which saves reading every file; otherwise None."""
    path = next((path for folder in search_spaces() if (path := folder / paper / f"{name}.yaml").is_file()), None)
    if paper in _APART or path is None:
        return None
    try:
        table = table_file.read(path)
    except UserError:
        return None
    return table if table.address == f"{paper}/{name}" else None


def find_all(target: str | Path | list[Target]) -> list[Target]:
    """Returns the result of `find`, or every table in the folder that `target` names, sorted by file name. UserError if there is none.

    Subfolders are not searched. Files that have only shared sections, or a single resolved row, are skipped. What was found before is
    returned as it is.
    """
    if isinstance(target, list):
        return target
    text, folder = str(target), Path(target)
    if not text or "\0" in text or "#" in text or not folder.is_dir() or text in tables()[0]:
        return [find(text)]
    found: dict[str, Target] = {}
    problems: list[str] = []
    for path in sorted(folder.glob("[!.]*.yaml")):
        if not _is_table(path):
            continue
        try:
            table = table_file.read(path)
        except UserError as error:
            problems += error.lines
            continue
        if table.address in found:
            problems.append(f"{table.document.file}:1: source: found {table.address}, the address of another file too")
        elif (table.rows or table.problems) and not table.is_single:
            found[table.address] = Target(table)
    if problems or not found:
        raise UserError(*(problems or [f"{display(folder)}: found no table in this folder; expected FILE.yaml with rows"]))
    return list(found.values())


def _is_table(path: Path) -> bool:
    """Returns False for the bases, data entries and profiles under `search_spaces`."""
    resolved = path.resolve()
    return not any(resolved.is_relative_to(folder.resolve()) and _apart(resolved, folder.resolve()) for folder in search_spaces())


def _in_file(path: Path, row: str | None, named: bool) -> Target:
    if "\0" in str(path) or not path.exists():
        raise UserError(table_file.missing(path) if "\0" not in str(path) else f"{shown(str(path), 200)}: no such file")
    table = table_file.read(path)
    if not named:
        return Target(table)
    return _in_table(table, row or "", f"{path}#{row or ''}")


def _in_table(table: TableFile, row: str, text: str) -> Target:
    if _SEVERAL.search(row):
        return Target(table, _several(table, row.split(","), text))
    control = None if row in table.rows else controls.split(row)
    for name in [row] if control is None else [control[0], control[2]]:
        if name not in table.rows:
            raise UserError(f"{shown(text, 200)}: no such row{_near(name, list(table.rows), 1)}", *table.problems)
    return Target(table, (row,), control)


def _several(table: TableFile, patterns: list[str], text: str) -> tuple[str, ...]:
    """The rows that the patterns name, in the order of the table. UserError for a pattern without a row."""
    forms = {pattern: re.compile(re.escape(pattern).replace(r"\*", ".*")) for pattern in patterns}
    matches = {pattern: {name for name in table.rows if form.fullmatch(name)} for pattern, form in forms.items()}
    if missing := [pattern for pattern, found in matches.items() if not found]:
        problems = [f"{shown(text, 200)}: no such row: '{shown(name)}'{_near(name, list(table.rows), 1)}" for name in missing]
        raise UserError(*problems, *table.problems)
    return tuple(name for name in table.rows if any(name in found for found in matches.values()))


def _near(text: str, known: list[str], parts: int) -> str:
    wanted = "/".join(text.split("/")[:parts]) if parts == 2 else text
    close = difflib.get_close_matches(wanted, known, n=1, cutoff=0.5)
    listed = f"; expected {'one of ' * (len(known) > 1)}{', '.join(known)}" if 0 < len(known) <= 24 else ""
    return listed + (f"; did you mean {close[0]}?" if close else "")
