"""Index of tables: the product's and the user's YAML files under `search_spaces`, without bases, data entries, profiles and searches.

Files of tables that lie in the working folder itself belong to the index too.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from orchestrator.errors import UserError, collecting, raise_all
from orchestrator.files.documents import read_bytes
from orchestrator.paths import search_spaces
from orchestrator.specs import controls, table_file
from orchestrator.specs.positions import OVERRIDE, display, existing_file, nearest, shown
from orchestrator.specs.table import segments
from orchestrator.specs.table_file import TableFile

APART = ("base", "data", "profiles", "tune")
_ROWS = re.compile(rb"^(rows|grid):", re.MULTILINE)
_SEVERAL = re.compile("[,*]")


@dataclass(frozen=True)
class Target:
    """A table and the rows of it that the user named; none: all rows.

    control: the parts of a matched control's name (`controls.split`). tuned: the row with the best configuration of its search.
    """

    table: TableFile
    rows: tuple[str, ...] = ()
    control: tuple[str, str, str] | None = None
    tuned: bool = False

    @property
    def row(self) -> str | None:
        return self.rows[0] if len(self.rows) == 1 else None


def table_files() -> list[Path]:
    """Returns the files of the index: the product's, the user's own, those of the working folder; each sorted."""
    found = [path for folder in search_spaces() for path in sorted(folder.rglob("*.yaml")) if not _apart(path, folder)]
    here = sorted(path for path in Path().glob("[!.]*.yaml") if _ROWS.search(read_bytes(path) or b""))
    return list({path.resolve(): path for path in (*found, *here)}.values())


def _apart(path: Path, folder: Path) -> bool:
    return path.relative_to(folder).parts[0] in APART


def tables(paths: Iterable[Path] | None = None) -> tuple[dict[str, TableFile], list[str]]:
    """Returns address -> table, and the problems of files that cannot be read or claim the address of another file. None: the index."""
    found: dict[str, TableFile] = {}
    problems: list[str] = []
    for path in table_files() if paths is None else paths:
        with collecting(problems):
            table = table_file.read(path)
            if table.address.casefold() in {address.casefold() for address in found}:
                raise UserError(f"{table.document.file}:1: source: found {table.address}, the address of another file too")
            found[table.address] = table
    return found, problems


def find(text: str) -> Target:
    """Finds the table or row that `text` names. Raises UserError if there is none.

    Accepts `FILE.yaml`, `FILE.yaml#ROW`, `paper/table` and `paper/table/row[/part]`. The row may be a matched control,
    `row1@params=row5`, or several names with commas, in which `*` stands for any text: `row9,row1/*`.
    """
    name, in_file, row = text.partition("#")
    path = Path(name)
    if name.endswith((".yaml", ".yml")) or path.is_file() or path.is_absolute() or name.startswith("."):
        table = table_file.read(existing_file(name))
        return _in_table(table, row, text) if in_file else Target(table)
    parts = text.split("/")
    address = "/".join(parts[:2]) if any(map(_SEVERAL.search, parts[2:])) else text.partition("@")[0]
    if in_file or not segments(address, 2, 4):
        hint = f"; did you mean --set {shown(text, 120)}?" if OVERRIDE.fullmatch(text) else ""
        raise UserError(
            f"{shown(text, 200)}: found no file and no address; expected FILE.yaml, paper/table, paper/table/row or a folder{hint}"
        )
    found, unread = None, list[str]()
    with collecting(unread):
        found = _by_file_name(*parts[:2])
    if found is None:
        wanted, (others, problems) = "/".join(parts[:2]), tables()
        if wanted not in others:
            raise_all(unread)
            raise UserError(f"{text}: no such table (a file elsewhere is FILE.yaml or FILE.yaml#ROW); {nearest(wanted, others)}", *problems)
        found = others[wanted]
    return Target(found) if len(parts) == 2 else _in_table(found, "/".join(parts[2:]), text)


def _by_file_name(paper: str, name: str) -> TableFile | None:
    """Returns the table if its file is named like its address, which saves reading every file; otherwise None.

    UserError: the file of this name cannot be read, or has faults and another address, as after a mistake in its head.
    """
    path = next((path for folder in search_spaces() if (path := folder / paper / f"{name}.yaml").is_file()), None)
    if paper in APART or path is None:
        return None
    table = table_file.read(path)
    if table.address == f"{paper}/{name}":
        return table
    raise_all(table.problems)
    return None


def find_all(target: str | Path | list[Target]) -> list[Target]:
    """Returns the result of `find`, or every table in the folder that `target` names, sorted by file name. UserError if there is none.

    Subfolders are not searched. Files with only shared sections, or a single resolved row, are skipped. A list is returned as it is.
    """
    if isinstance(target, list):
        return target
    text, folder = str(target), Path(target)
    if not is_folder(text):
        return [find(text)]
    tables_there, problems = tables(filter(_is_table, sorted(folder.glob("[!.]*.yaml"))))
    found = [Target(table) for table in tables_there.values() if (table.written or table.grid or table.problems) and not table.is_single]
    if problems or not found:
        raise UserError(*(problems or [f"{display(folder)}: found no table in this folder; expected FILE.yaml with rows"]))
    return found


def is_folder(target: str) -> bool:
    """Returns whether the target is a folder of tables. The address of a table comes first."""
    return bool(target) and not {"\0", "#"} & set(target) and Path(target).is_dir() and target not in tables()[0]


def _is_table(path: Path) -> bool:
    """Returns False for the bases, data entries and profiles under `search_spaces`."""
    resolved = path.resolve()
    return not any(resolved.is_relative_to(folder.resolve()) and _apart(resolved, folder.resolve()) for folder in search_spaces())


def _in_table(table: TableFile, row: str, text: str) -> Target:
    """Returns the rows in the order of the table, or the matched control. UserError for a name or pattern without a row."""
    tuned, row = row.endswith(controls.TUNED), row.removesuffix(controls.TUNED)
    names: tuple[str, ...] = (row,)
    control = None
    if _SEVERAL.search(row):
        forms = {pattern: re.compile(re.escape(pattern).replace(r"\*", ".*")) for pattern in row.split(",")}
        names = tuple(name for name in table.rows if any(form.fullmatch(name) for form in forms.values()))
        missing = [pattern for pattern, form in forms.items() if not any(map(form.fullmatch, names))]
    else:
        control = None if row in table.rows else controls.split(row)
        missing = [name for name in ([row] if control is None else [control[0], control[2]]) if name not in table.rows]
    if missing:
        where = shown(text, 200)
        raise UserError(*(f"{where}: no such row: '{shown(name)}'; {nearest(name, table.rows)}" for name in missing), *table.problems)
    return Target(table, names, control, tuned)
