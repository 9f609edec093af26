"""Reads packed runs: the runs of one table in two files, in place of six or more files per run. `ledger.packing` writes them.

    ROOT/packed/TABLE.records.zst     JSON lines: first {"sentences": sha256 of the other file}, then one line per file of a run:
                                      {"file": "RUN16/train.json", "record": {...}} or {"file": "RUN16/spec.yaml", "text": "..."}
    ROOT/packed/TABLE.sentences.zst   sentence statistics: a JSON line that lists the arrays [k, N, S], then their byte planes

Both begin with a line `MAGIC BYTES SHA256`: the size of the content and the sha256 of the compressed bytes. A damaged file is a UserError.
The line of a record with sentence statistics has `arrays`, name -> [array, index in it], and `check`, the sha256 of the whole record (see
`check_of`). The record comes back with these arrays [N, S] in place of text; `with_text` restores the text. A record without statistics
has its own digest, which the reader of records checks. Packed runs are read-only. A file in the run's own folder comes first.
"""

import functools
import hashlib
import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from orchestrator.errors import UserError
from orchestrator.files import documents
from orchestrator.files.canonical import digest
from orchestrator.files.documents import parse

FOLDER, RECORDS, SENTENCES = "packed", ".records.zst", ".sentences.zst"
MAGIC = b"nmt-ablate-packed-1"
MOST_BYTES = 1 << 30
"""Maximum size of the content of one file."""
STRIDES = {"chrf": 3}
"""Metrics whose statistics are stored as differences to the column this far before: chrF has 3 counts of each order."""
RUN = re.compile(r"[0-9a-f]{16}")


def read_bytes(path: Path) -> bytes | None:
    """`documents.read_bytes`; for a packed run the text of its file."""
    data = documents.read_bytes(path)
    return data if data is not None or (table := table_of(path)) is None else table.text(_name(path))


def read_document(path: Path) -> dict[str, Any] | None:
    """`documents.read_document`; for a packed run its record, with arrays for statistics. None if it is damaged."""
    if (table := table_of(path)) is None:
        return documents.read_document(path)
    return table.document(_name(path))


def exists(path: Path) -> bool:
    return path.is_file() or table_of(path) is not None


def table_of(path: Path) -> "Table | None":
    """The packed table that holds this file of a run; None if no table does, or the file itself exists."""
    tables = tables_in(path.parents[_depth(path)])
    return None if not tables or path.exists() else tables.get(_name(path))


def files(folder: Path) -> list[Path]:
    """The JSON files of RUN16 or RUN16/FOLDER, sorted, packed ones included."""
    found = set(folder.glob("*.json"))
    root = folder.parent if RUN.fullmatch(folder.name) else folder.parents[1]
    prefix = f"{folder.relative_to(root).as_posix()}/"
    for name in tables_in(root):
        if name.startswith(prefix) and name.endswith(".json") and "/" not in name[len(prefix) :]:
            found.add(root / name)
    return sorted(found)


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
    return {name: _text(with_text(value) if name == "statistics" else value) for name, value in record.items()}


def _text(value: Any) -> Any:
    if not hasattr(value, "tobytes"):
        return value
    from orchestrator.ledger.statistics import pack  # deferred: numpy

    return pack(value)


def check_of(record: Mapping[str, Any], arrays: Mapping[str, Any]) -> str:
    """The sha256 of a record and of its arrays. It does not depend on the version of zlib, on which the record's digest depends."""
    return digest([record, {name: hashlib.sha256(array.tobytes()).hexdigest() for name, array in arrays.items()}])


class Table:
    """The two files of one table. Lines and arrays are decoded when they are asked for."""

    def __init__(self, path: Path) -> None:
        self.path = path
        first, *lines = read_content(path).splitlines()
        self._sentences = str(_json(path, first).get("sentences"))
        self._lines: dict[str, bytes] = {}
        for line in lines:
            match = re.match(rb'\{"file":"([0-9a-f]{16}/[a-z0-9_./]+)",', line)
            if match is None:
                raise UserError(f"{path}: holds a line that names no file of a run")
            self._lines[match[1].decode()] = line

    def __iter__(self) -> Any:
        return iter(self._lines)

    def text(self, name: str) -> bytes | None:
        text = _json(self.path, self._lines[name]).get("text")
        return text.encode() if isinstance(text, str) else None

    def document(self, name: str) -> dict[str, Any] | None:
        """The record of a file, None if its digest or its `check` is another."""
        line = _json(self.path, self._lines[name])
        try:
            record: dict[str, Any] = line["record"]
            if "arrays" not in line:
                return record if record["digest"] == digest(documents.unsealed(record)) else None
            arrays = {name: self._arrays[group][index] for name, (group, index) in line["arrays"].items()}
            if line["check"] != check_of(record, arrays):
                return None
            nested = {name.removeprefix("statistics."): array for name, array in arrays.items() if name.startswith("statistics.")}
            own = {name: array for name, array in arrays.items() if not name.startswith("statistics.")}
            return record | own | ({"statistics": record.get("statistics", {}) | nested} if nested else {})
        except (KeyError, TypeError, ValueError, IndexError):
            return None

    @functools.cached_property
    def _arrays(self) -> list[Any]:
        """The arrays [k, N, S] of the file of sentence statistics."""
        import numpy as np  # deferred: commands without scores do without

        path = self.path.with_name(self.path.name.removesuffix(RECORDS) + SENTENCES)
        data = documents.read_bytes(path)
        if data is None or hashlib.sha256(data).hexdigest() != self._sentences:
            raise UserError(f"{path}: is not the file that {self.path.name} was written with")
        head, _, planes = read_content(path).partition(b"\n")
        found, at = [], 0
        try:
            for metric, kind, shape in json.loads(head):
                size = 4 * math.prod(shape)
                values = np.moveaxis(np.frombuffer(planes[at : at + size], dtype=np.uint8).reshape(4, *shape), 0, -1)
                array, at = np.ascontiguousarray(values).view("<i4")[..., 0], at + size
                if (stride := STRIDES.get(metric)) is not None:
                    array = array.reshape(*shape[:-1], -1, stride).cumsum(axis=-2, dtype="<i4").reshape(shape)
                found.append(array.view(kind))
        except (ValueError, TypeError) as error:
            raise UserError(f"{path}: holds no sentence statistics ({error})") from None
        return found


def read_content(path: Path) -> bytes:
    """The content of a packed file. Raises UserError if it is damaged, in one line and before anything is decompressed."""
    import pyarrow as pa  # deferred: only packed ledgers need it

    head, _, data = (documents.read_bytes(path) or b"").partition(b"\n")
    match = re.fullmatch(re.escape(MAGIC) + rb" (\d{1,10}) ([0-9a-f]{64})", head)
    if match is None:
        raise UserError(f"{path}: is no packed file, or one of another version; expected a first line with {MAGIC.decode()}")
    if hashlib.sha256(data).hexdigest() != match[2].decode() or int(match[1]) > MOST_BYTES:
        raise UserError(f"{path}: is damaged: its sha256 is not the one in its first line")
    try:
        content: bytes = pa.Codec("zstd").decompress(data, int(match[1]), asbytes=True)
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: is damaged ({error})") from None
    return content


def tables_in(root: Path) -> Mapping[str, Table]:
    """Name of a file (`RUN16/train.json`) -> its table, of all packed files of a ledger."""
    folder = root / FOLDER
    try:
        return _tables(folder, folder.stat().st_mtime_ns)
    except OSError:
        return {}


@functools.lru_cache(maxsize=8)
def _tables(folder: Path, _modified: int) -> Mapping[str, Table]:
    tables = [Table(path) for path in sorted(folder.glob(f"*{RECORDS}"))]
    return {name: table for table in tables for name in table}


def _json(path: Path, line: bytes) -> dict[str, Any]:
    try:
        return dict(parse(line))
    except (ValueError, TypeError, RecursionError):
        raise UserError(f"{path}: holds a line that is no JSON object") from None


def _depth(path: Path) -> int:
    """Number of folders between a file of a run and the ledger."""
    return 1 if RUN.fullmatch(path.parent.name) else 2


def _name(path: Path) -> str:
    return "/".join(path.parts[-1 - _depth(path) :])
