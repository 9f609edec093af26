"""Names of sweeps, and the seeds of a command."""

import contextlib
import functools
import hashlib
from collections.abc import Sequence
from pathlib import Path

from orchestrator.errors import UserError
from orchestrator.specs import index
from orchestrator.specs.positions import shown
from orchestrator.specs.row import Row, by_table
from orchestrator.specs.table import SEGMENT


def address_of(target: str, rows: Sequence[Row], found: list[index.Target] | None = None) -> str:
    """Returns the table's address, of a named row its own, of several named rows with a digest. Several tables: the folder's name."""
    tables = list(by_table(rows))
    folder = Path(target).resolve().name if len(tables) > 1 or index.is_folder(target) else ""
    if folder:
        return folder if SEGMENT.fullmatch(folder) else "folder"
    chosen = index.find_all(found or target)[0].rows
    return rows[0].id if len(chosen) == 1 else tables[0] + (f"+{_digest(chosen)}" if chosen else "")


def as_targets(row: Row) -> tuple[str, str]:
    """Returns table and row for a command line: by address, or by file if the address finds no table or another file's table."""
    paper, table, name = row.id.split("/", 2)
    if _is_found(row.source_file, f"{paper}/{table}"):
        return f"{paper}/{table}", row.id
    return row.source_file, f"{row.source_file}#{name}"


def as_address(text: str) -> str:
    """Returns the address of the table or row in `FILE.yaml` or `FILE.yaml#ROW`; other text unchanged."""
    if not text.partition("#")[0].endswith((".yaml", ".yml")):
        return text
    found = index.find(text)
    return "/".join([found.table.address, *found.rows[:1]])


@functools.cache
def _is_found(file: str, address: str) -> bool:
    """Returns whether the address finds the file. It checks the file's usual place first, since a search may read every table."""
    with contextlib.suppress(UserError):
        return Path(file).resolve() in map(Path.resolve, index.table_files()) and index.find(address).table.document.file == file
    return False


def sweep_name(address: str, profile: str | None, sets: Sequence[str] | None, controls: Sequence[str] | None = None) -> str:
    """Name of a sweep, derived from its address, profile, overrides and given controls: the same command gives the same name."""
    sets = [*(sets or []), *([] if controls is None else [f"--controls {','.join(sorted(controls))}"])]
    return address + (f"@{profile}" if profile else "") + (f"+{_digest(sets)}" if sets else "")


def _digest(words: Sequence[str]) -> str:
    return hashlib.sha256("\0".join(sorted(words)).encode("utf-8", "replace")).hexdigest()[:8]


def parse_seeds(text: str | None) -> list[int] | None:
    """`1,2,5-7` -> [1, 2, 5, 6, 7]. UserError for anything but distinct whole numbers below 2^32."""
    if text is None:
        return None
    seeds: list[int] = []
    for part in text.split(","):
        ends = [int(end) if end.isascii() and end.isdigit() and len(end) <= 10 else 2**32 for end in map(str.strip, part.split("-"))]
        if len(ends) > 2 or not ends[-1] - 1000 < ends[0] <= ends[-1] < 2**32:
            raise UserError(f"--seeds {shown(text)}: expected whole numbers up to 4294967295, or ranges of at most 1000, such as 4-6")
        seeds += range(ends[0], ends[-1] + 1)
    if len(set(seeds)) != len(seeds):
        raise UserError(f"--seeds {shown(text)}: expected distinct numbers")
    return seeds
