"""Writes the packed form of runs (see `ledger.packed`), and writes packed runs as files again."""

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import yaml

from orchestrator.errors import UserError
from orchestrator.files import atomic
from orchestrator.files.documents import sealed, unsealed
from orchestrator.ledger import packed
from orchestrator.ledger.layout import SMALL, files_in
from orchestrator.ledger.packed import FOLDER, MAGIC, RECORDS, SENTENCES, STRIDES
from orchestrator.ledger.statistics import WIDTHS, Numbers, pack, unpack

LEVEL = 19


def write(runs: Iterable[Path], dest: Path) -> dict[str, int]:
    """Packs the small files of runs into `dest`/packed, a pair of files per table. Returns the number of runs of each table.

    Raises UserError for a damaged record: it would be lost.
    """
    tables: dict[str, list[Path]] = defaultdict(list)
    for run in runs:
        tables[_table(run)].append(run)
    for name, own in tables.items():
        arrays = _Arrays()
        lines = [arrays.line(root, file) for run in own for root, file in ((run.parent, file) for file in names_of(run))]
        sentences = _packed_bytes(arrays.content())
        first = {"sentences": hashlib.sha256(sentences).hexdigest()}
        content = "".join(json.dumps(line, separators=(",", ":"), allow_nan=False) + "\n" for line in (first, *lines))
        atomic.write_bytes(dest / FOLDER / f"{name}{SENTENCES}", sentences)
        atomic.write_bytes(dest / FOLDER / f"{name}{RECORDS}", _packed_bytes(content.encode()))
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
            data = atomic.json_bytes(sealed(packed.with_text(unsealed(document)), document["key"]))
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


class _Arrays:
    """The sentence statistics of one table, grouped by metric, type and shape."""

    def __init__(self) -> None:
        self.groups: dict[tuple[str, str, tuple[int, ...]], list[Numbers]] = {}
        self.known: dict[str, list[int]] = {}

    def line(self, root: Path, name: str) -> dict[str, Any]:
        path = root / name
        if not name.endswith(".json"):
            return {"file": name, "text": (packed.read_bytes(path) or b"").decode()}
        record = packed.read_document(path)
        if record is None:
            raise UserError(f"{path}: not a whole record (damaged JSON or digest); nothing was packed")
        record = packed.with_text(record)
        taken: dict[str, Numbers] = {}
        rest = self._without(record, "", ("nll",), taken)
        if isinstance(record.get("statistics"), Mapping):
            rest["statistics"] = self._without(record["statistics"], "statistics.", WIDTHS, taken)
        if not taken:
            return {"file": name, "record": record}
        places = {each: self._place(each.rpartition(".")[2], array) for each, array in taken.items()}
        return {"file": name, "record": rest, "arrays": places, "check": packed.check_of(rest, taken)}

    @staticmethod
    def _without(record: Mapping[str, Any], prefix: str, metrics: Iterable[str], taken: dict[str, Numbers]) -> dict[str, Any]:
        """The record without the statistics that come back as the same text; those go to `taken`."""
        rest = dict(record)
        for metric in metrics:
            if isinstance(text := rest.get(metric), str) and pack(array := unpack(text, WIDTHS[metric])) == text:
                taken[prefix + metric] = array
                del rest[metric]
        return rest

    def _place(self, metric: str, array: Numbers) -> list[int]:
        """[group, index] of an array. Equal arrays are stored once, as the nll of a decoding and of its scores."""
        key = f"{metric} {hashlib.sha256(array.tobytes()).hexdigest()}"
        if key not in self.known:
            group = (metric, array.dtype.str, array.shape)
            own = self.groups.setdefault(group, [])
            self.known[key] = [list(self.groups).index(group), len(own)]
            own.append(array)
        return self.known[key]

    def content(self) -> bytes:
        head = [(metric, kind, (len(own), *shape)) for (metric, kind, shape), own in self.groups.items()]
        planes = []
        for (metric, _, _), own in self.groups.items():
            values = np.stack(own).view("<i4")
            if (stride := STRIDES.get(metric)) is not None:
                values = np.concatenate([values[..., :stride], values[..., stride:] - values[..., :-stride]], axis=-1)
            planes.append(np.moveaxis(np.ascontiguousarray(values)[..., None].view(np.uint8), -1, 0).tobytes())
        return json.dumps(head).encode() + b"\n" + b"".join(planes)


def _packed_bytes(content: bytes) -> bytes:
    data = pa.Codec("zstd", LEVEL).compress(content, asbytes=True)
    return MAGIC + f" {len(content)} {hashlib.sha256(data).hexdigest()}\n".encode() + data
