"""Reads the sweep files of a ledger: the rows that refer to each run, the runs that start from it, and the sweeps that are running."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import NoneType
from typing import Any

from orchestrator.files.documents import KEY, read_document
from orchestrator.ledger.run_lock import owner
from orchestrator.specs.positions import describe

BESIDE = (".asha.json", ".lock.json")
"""Endings of files in RESULTS/sweeps that accompany NAME.json and are not sweeps."""


@dataclass(frozen=True)
class Named:
    """A row of a sweep. `parent`: train key of the run that it starts from."""

    sweep: str
    id: str
    seed: int
    row: Mapping[str, Any]
    parent: str | None = None

    @property
    def name(self) -> str:
        return f"{self.id} seed {self.seed}"


@dataclass
class Sweeps:
    """Rows of all sweeps by train key, and by the train key of the run they start from. `unreadable`: names of files that do not parse."""

    names: list[str] = field(default_factory=list)
    live: dict[str, dict[str, Any]] = field(default_factory=dict)
    rows: dict[str, list[Named]] = field(default_factory=lambda: defaultdict(list))
    children: dict[str, list[Named]] = field(default_factory=lambda: defaultdict(list))
    unreadable: list[str] = field(default_factory=list)

    def driver(self, key: str) -> str | None:
        """Describes the process that is driving a sweep with this run; None if there is none."""
        for named in (*self.rows.get(key, ()), *self.children.get(key, ())):
            if (record := self.live.get(named.sweep)) is not None:
                return f"process {record.get('pid')} on {record.get('host')}"
        return None


def read_sweeps(results: Path) -> Sweeps:
    """Reads all sweep files, without locks and without changing anything."""
    found = Sweeps()
    folder = results / "sweeps"
    for path in sorted(folder.glob("*.json")):
        if path.name.endswith(BESIDE) or path.name.startswith("."):
            continue
        try:
            rows = rows_of(json.loads(path.read_bytes()))
        except (OSError, ValueError, RecursionError):
            found.unreadable.append(path.name)
            continue
        found.names.append(path.stem)
        keys = {(row["id"], row["seed"]): row["keys"]["train"] for row in rows}
        for row in rows:
            address = (row.get("spec") or {}).get("init_from")
            parent = None if address is None else keys.get((address, row["seed"]))
            named = Named(path.stem, row["id"], row["seed"], row, parent)
            found.rows[row["keys"]["train"]].append(named)
            if parent is not None:
                found.children[parent].append(named)
    for path in sorted(folder.glob("*.lock.json")):  # a sweep that is just starting has a lock but no file
        name = path.name.removesuffix(".lock.json")
        if (record := owner(folder / f"{name}.lock")) is not None:
            found.live[name] = record
    return found


def with_claims(earlier: Sequence[Mapping[str, Any]], now: Sequence[Mapping[str, Any]], time: float) -> list[dict[str, Any]]:
    """The claims in a sweep's file: what is there stays, and a table whose claims are new or differ from its last ones gets an entry.

    now: {"table", "file_sha256", "claims"} of each table that has claims.
    """
    found = [dict(entry) for entry in earlier]
    for entry in now:
        last = next((known for known in reversed(found) if known.get("table") == entry["table"]), None)
        if last is None or last.get("claims") != entry["claims"]:
            found.append({"recorded": time, **entry})
    return found


def recorded_claims(roots: Iterable[Path], table: str) -> list[dict[str, Any]]:
    """{"recorded", "claim"} of each claim on a table in the sweep files of these ledgers; damaged files are skipped."""
    found = []
    for path in (path for root in roots for path in sorted((root / "sweeps").glob("*.json"))):
        entries = (read_document(path) or {}).get("claims")
        for entry in entries if isinstance(entries, list) else []:
            if isinstance(entry, dict) and entry.get("table") == table and isinstance(entry.get("recorded"), (int, float)):
                found += [{"recorded": entry["recorded"], "claim": claim} for claim in entry.get("claims", []) if isinstance(claim, dict)]
    return found


def rows_of(record: Any) -> list[dict[str, Any]]:
    """Returns the rows of a sweep file. ValueError names the first value of an unexpected type."""
    _need(record, dict, "", "a mapping")
    _need(record.get("name"), (str, NoneType), "name", "text")
    rows: list[dict[str, Any]] = record.get("rows")
    _need(rows, list, "rows", "a list")
    for index, row in enumerate(rows):
        _check_row(row, f"rows[{index}]")
    return rows


def _check_row(row: Any, at: str) -> None:
    _need(row, dict, at, "a mapping")
    _need(row.get("id"), str, f"{at}.id", "text")
    _need(row.get("seed"), int, f"{at}.seed", "a whole number")
    _need(row.get("failed_below"), (int, float, NoneType), f"{at}.failed_below", "a number")
    _need(row.get("spec"), (dict, NoneType), f"{at}.spec", "a mapping")
    _need((row.get("spec") or {}).get("init_from"), (str, NoneType), f"{at}.spec.init_from", "text")
    _check_keys(row.get("keys"), f"{at}.keys")
    _key(row["keys"].get("train"), f"{at}.keys.train")
    _need(row.get("also"), (dict, NoneType), f"{at}.also", "a mapping")
    for name, other in (row.get("also") or {}).items():
        _need(other, dict, f"{at}.also.{name}", "a mapping")
        _check_keys(other.get("keys"), f"{at}.also.{name}.keys")


def _check_keys(keys: Any, at: str) -> None:
    _need(keys, dict, at, "a mapping")
    for name in ("decode", "score"):
        if keys.get(name) is not None:
            _key(keys[name], f"{at}.{name}")


def _key(value: Any, at: str) -> None:
    if not isinstance(value, str) or not KEY.fullmatch(value):
        raise ValueError(f"{at}: found {describe(value)}; expected a key of 64 hexadecimal digits")


def _need(value: Any, kind: type | tuple[type, ...], at: str, words: str) -> None:
    if not isinstance(value, kind) or isinstance(value, bool):
        raise ValueError(f"{at + ': ' if at else ''}found {describe(value)}; expected {words}")
