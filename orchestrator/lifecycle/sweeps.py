"""What the sweep files of a ledger say of its runs: which rows name a run, who starts from it, which sweeps are driven right now."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orchestrator.documents import KEY
from orchestrator.lock import owner

BESIDE = (".asha.json", ".lock.json")
"""Files beside NAME.json in RESULTS/sweeps that are no sweep."""


@dataclass(frozen=True)
class Named:
    """A row that a sweep names. `parent`: train key of the run that it starts from."""

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
    """By train key the rows that name it, and those that start from it. `unreadable`: files that might name more."""

    names: list[str] = field(default_factory=list)
    live: dict[str, dict[str, Any]] = field(default_factory=dict)
    rows: dict[str, list[Named]] = field(default_factory=lambda: defaultdict(list))
    children: dict[str, list[Named]] = field(default_factory=lambda: defaultdict(list))
    unreadable: list[str] = field(default_factory=list)

    def driver(self, key: str) -> str | None:
        """Who drives a sweep that names this run, in words; None where none runs."""
        for named in (*self.rows.get(key, ()), *self.children.get(key, ())):
            if (record := self.live.get(named.sweep)) is not None:
                return f"process {record.get('pid')} on {record.get('host')}"
        return None


def read_sweeps(results: Path) -> Sweeps:
    """Reads every file, takes no lock and changes nothing."""
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
    for path in sorted(folder.glob("*.lock.json")):  # a sweep that is just starting has a lock and no file yet
        name = path.name.removesuffix(".lock.json")
        if (record := owner(folder / f"{name}.lock")) is not None:
            found.live[name] = record
    return found


def rows_of(record: Any) -> list[dict[str, Any]]:
    """The rows of a sweep file. ValueError where it is none."""
    rows = record.get("rows") if isinstance(record, dict) else None
    if not isinstance(rows, list) or not all(_is_row(row) for row in rows):
        raise ValueError("no sweep: expected rows with id, seed and keys")
    return rows


def _is_row(row: Any) -> bool:
    keys = row.get("keys") if isinstance(row, dict) else None
    if not isinstance(keys, dict) or not isinstance(row.get("id"), str) or not isinstance(row.get("seed"), int):
        return False
    spec = row.get("spec")
    train = keys.get("train")
    return isinstance(train, str) and KEY.fullmatch(train) is not None and (spec is None or isinstance(spec, dict))
