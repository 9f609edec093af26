"""Writes the packed form of runs (see `ledger.packed`), and writes packed runs as files again."""

import json
import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from orchestrator.errors import UserError
from orchestrator.files import atomic
from orchestrator.files.documents import sealed, unsealed
from orchestrator.ledger import packed
from orchestrator.ledger.layout import SMALL, files_in
from orchestrator.ledger.packed import FOLDER, MARK, TYPES
from orchestrator.ledger.statistics import WIDTHS, pack, unpack

STATISTICS = {name: pa.list_(pa.type_for_alias(kind)) for name, kind in TYPES.items()}
SCHEMA = pa.schema({"file": pa.string(), "content": pa.string()} | STATISTICS)
OPTIONS: dict[str, Any] = {"compression": "zstd", "compression_level": 19, "use_dictionary": False, "write_statistics": False}
OPTIONS |= {"store_schema": False, "data_page_size": 1 << 26}  # zstd finds repetitions within a page only


def write(runs: Iterable[Path], dest: Path) -> dict[str, int]:
    """Packs the small files of runs into `dest`/packed, one file per table. Returns the number of runs of each table.

    Raises UserError for a damaged record: it would be lost.
    """
    tables: dict[str, list[Path]] = defaultdict(list)
    for run in runs:
        tables[_table(run)].append(run)
    for name, own in tables.items():
        lines = [_line(run.parent, file) for run in own for file in names_of(run)]
        stream = pa.BufferOutputStream()
        with pq.ParquetWriter(stream, SCHEMA, **OPTIONS) as writer:
            writer.write_table(pa.Table.from_pylist(lines, SCHEMA))
            writer.add_key_value_metadata({"check": MARK + b"0" * 64})
        atomic.write_bytes(dest / FOLDER / f"{name}.parquet", packed.stamped(stream.getvalue().to_pybytes()))
    return {name: len(own) for name, own in tables.items()}


def names_of(run: Path) -> list[str]:
    """The small files of a run relative to the ledger, sorted, packed ones included."""
    held = {name for name in packed.tables_in(run.parent) if name.startswith(f"{run.name}/")}
    return sorted(name for name in held.union(files_in(run.parent, run.name)) if SMALL.fullmatch(name))


def write_files(root: Path, names: Iterable[str], dest: Path) -> None:
    """Writes the files of packed runs into `dest`, without a sync. With the same zlib their records are equal byte for byte."""
    for name in names:
        path = root / name
        if name.endswith(".json"):
            document = packed.read_document(path)
            if document is None:
                raise UserError(f"{path}: not a whole record (damaged content or digest)")
            data = atomic.json_bytes(sealed(packed.with_text(unsealed(document)), document.get("key", "")))
        else:
            data = packed.read_bytes(path) or b""
        (dest / name).parent.mkdir(parents=True, exist_ok=True)
        with atomic.naming(dest / name, len(data)):
            (dest / name).write_bytes(data)


def _table(run: Path) -> str:
    """`dou2018-table1` for a row of that table, by the address in its spec.yaml."""
    spec = yaml.safe_load(packed.read_bytes(run / "spec.yaml") or b"") or {}
    name = "-".join(str(spec.get("id", "")).split("/")[:2]) if isinstance(spec, dict) else ""
    return re.sub(r"[^A-Za-z0-9._-]", "_", name).lstrip(".")[:100] or "runs"


def _line(root: Path, name: str) -> dict[str, Any]:
    """The line of a file. Statistics that would come back as another text stay in the content."""
    path = root / name
    if not name.endswith(".json"):
        return {"file": name, "content": (packed.read_bytes(path) or b"").decode()}
    record = packed.read_document(path)
    if record is None:
        raise UserError(f"{path}: not a whole record (damaged JSON or digest); nothing was packed")
    record, arrays = packed.with_text(record), {}
    holder = record.get("statistics", record)
    for metric, width in WIDTHS.items():
        if isinstance(text := holder.get(metric), str):
            array = unpack(text, width).ravel()
            if pa.from_numpy_dtype(array.dtype) == TYPES[metric] and pack(array) == text:
                arrays[metric], holder[metric] = array, None
    return {"file": name, "content": json.dumps(record, separators=(",", ":"), allow_nan=False), **arrays}
