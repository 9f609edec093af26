"""Reads packed runs: the runs of one table in one Parquet file, in place of six or more files per run. `ledger.packing` writes them.

ROOT/packed/TABLE.parquet has one line per file of a run:

    file                        RUN16/train.json, RUN16/spec.yaml, ...
    content                     its text; of a record compact JSON, with null in place of sentence statistics
    bleu, chrf, rougeL, nll     these statistics, sentence by sentence (see `ledger.statistics`)

The footer states the sha256 of the rest of the file; if it is another, the file is refused. A record comes back with arrays [N * S] in
place of the text of its statistics; `with_text` restores the text. Packed runs are read-only. A file in the run's own folder comes first.
"""

import functools
import hashlib
import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestrator.errors import UserError
from orchestrator.files import documents

FOLDER = "packed"
TYPES = {"bleu": "int32", "chrf": "int32", "rougeL": "float", "nll": "float"}
COLUMNS = {"file": "string", "content": "string"} | {name: f"list<element: {kind}>" for name, kind in TYPES.items()}
MARK = b"nmt-ablate-packed sha256:"
"""Before the sha256 in the footer."""
ENCODINGS = {"PLAIN", "RLE"}
"""With these a column has the size that is stated for it. Dictionaries and deltas may decode to any size."""
MOST_BYTES = 1 << 30
"""Maximum size of a decoded file."""
RUN = re.compile(r"[0-9a-f]{16}")
_FILE = re.compile(rb"[0-9a-f]{16}/[a-z0-9_./]+")


def read_bytes(path: Path) -> bytes | None:
    """`documents.read_bytes`; for a packed run the content of its line."""
    data = documents.read_bytes(path)
    return data if data is not None or (line := line_of(path)) is None else line.content()


def read_document(path: Path) -> dict[str, Any] | None:
    """`documents.read_document`; for a packed run its record, with arrays for statistics. None if it is damaged."""
    return documents.read_document(path) if (line := line_of(path)) is None else line.document()


def exists(path: Path) -> bool:
    return path.is_file() or line_of(path) is not None


def line_of(path: Path) -> "Line | None":
    """The line of this file of a run; None if no table has it, or the file itself exists."""
    depth = 1 if RUN.fullmatch(path.parent.name) else 2
    tables = tables_in(path.parents[depth])
    return None if not tables or path.exists() else tables.get("/".join(path.parts[-1 - depth :]))


def files(folder: Path) -> list[Path]:
    """The JSON files of RUN16 or RUN16/FOLDER, sorted, packed ones included."""
    root = folder.parent if RUN.fullmatch(folder.name) else folder.parents[1]
    parent = folder.relative_to(root).as_posix()
    return sorted({*folder.glob("*.json"), *(root / name for name in tables_in(root).by_folder.get(parent, ()) if name.endswith(".json"))})


def runs(root: Path) -> list[Path]:
    """The folders of all runs, sorted. The folder of a packed run need not exist."""
    loose = {path for path in root.iterdir() if RUN.fullmatch(path.name) and path.is_dir()} if root.is_dir() else set()
    return sorted(loose | {root / run for run in {name.partition("/")[0] for name in tables_in(root)}})


def refuse_packed(run: Path) -> None:
    """Raises UserError if the run is packed: packed runs are read-only."""
    if any(name.startswith(f"{run.name}/") for name in tables_in(run.parent)):
        raise UserError(f"{run.parent}: run {run.name} is packed, and packed runs are read-only; expected another results folder")


def with_text(record: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the record with the text of its statistics, as in an unpacked file."""
    from orchestrator.ledger.statistics import pack  # deferred: numpy

    texts = {name: pack(value) for name, value in record.items() if hasattr(value, "tobytes")}
    nested = {"statistics": with_text(record["statistics"])} if "statistics" in record else {}
    return {**record, **texts, **nested}


def stamped(data: bytes) -> bytes:
    """The packed file with the sha256 of the rest of it after the mark."""
    before, _, after = data.rpartition(MARK)
    return before + MARK + hashlib.sha256(before + after[64:]).hexdigest().encode() + after[64:]


@dataclass(frozen=True)
class Line:
    """A file of a packed run. path: of the table; column: decodes a column of the table, once."""

    path: Path
    row: int
    column: Callable[[str], Any]

    def content(self) -> bytes:
        return bytes(self.column("content")[self.row].as_py() or b"")

    def document(self) -> dict[str, Any] | None:
        try:
            record = dict(documents.parse(self.content()))
            holder = record.get("statistics", record)
            for name in TYPES:
                if holder.get(name, "") is None and (values := self.column(name)[self.row].values) is not None:
                    holder[name] = values.to_numpy()
            return record
        except (AttributeError, TypeError, ValueError, RecursionError):
            return None


class Lines(dict[str, Line]):
    """Name of a file (`RUN16/train.json`) -> its line, of all tables of a ledger."""

    @functools.cached_property
    def by_folder(self) -> Mapping[str, list[str]]:
        """Folder (`RUN16/decode`) -> the names of its files."""
        folders = defaultdict[str, list[str]](list)
        for name in self:
            folders[name.rpartition("/")[0]].append(name)
        return folders


def tables_in(root: Path) -> Lines:
    """The lines of all tables of a ledger."""
    folder = root / FOLDER
    try:
        return _tables(folder, folder.stat().st_mtime_ns)
    except OSError:
        return Lines()


@functools.lru_cache(maxsize=8)
def _tables(folder: Path, _modified: int) -> Lines:
    lines = Lines()
    for path in sorted(folder.glob("[!.]*")):
        column = functools.cache(functools.partial(_column, path, documents.read_bytes(path) or b""))
        for row, name in enumerate(column("file").to_pylist()):
            if not _FILE.fullmatch(name or b""):
                raise UserError(f"{path}: holds a line that names no file of a run")
            lines[name.decode()] = Line(path, row, column)
    return lines


def _column(path: Path, data: bytes, name: str) -> Any:
    """A column of a packed file, texts as bytes. Raises UserError, in one line, for a file that is damaged or of another kind."""
    import pyarrow as pa  # deferred: only packed ledgers need it
    import pyarrow.parquet as pq

    try:
        if data != stamped(data):
            raise ValueError("its sha256 is missing or another")
        file = pq.ParquetFile(pa.BufferReader(data), pre_buffer=False)
        groups = [file.metadata.row_group(group) for group in range(file.num_row_groups)]
        parts = [group.column(number) for group in groups for number in range(group.num_columns)]
        same = {field.name: str(field.type) for field in file.schema_arrow} == COLUMNS
        if not same or not all(ENCODINGS.issuperset(part.encodings) for part in parts):
            raise ValueError("other columns or encodings")
        if sum(part.total_uncompressed_size + 4 * part.num_values for part in parts) > MOST_BYTES:
            raise ValueError("too large")
        column = file.read([name], use_threads=False).column(0)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise UserError(f"{path}: is damaged, or written by an earlier version: export again ({error})") from None
    return column if name in TYPES else column.cast(pa.binary())
