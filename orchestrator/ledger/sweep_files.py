"""The sweep files of a ledger: the rows that refer to each run, the runs that start from it, and the sweeps that are running.

A damaged file is reported in one line and passed over. `digest`, the sha256 of the rest, shows that a sweep wrote the file.
"""

import json
import os
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orchestrator.files import atomic
from orchestrator.files.canonical import sha256
from orchestrator.files.documents import parse, unsealed
from orchestrator.files.folders import no_file
from orchestrator.ledger.run_lock import owner
from orchestrator.safe_text import log_once
from orchestrator.specs.positions import display

BESIDE = (".asha.json", ".lock.json")
"""Suffixes of files in RESULTS/sweeps that accompany NAME.json and are not sweeps."""


@dataclass(frozen=True)
class SweepFile:
    """RESULTS/sweeps/NAME.json, which holds the rows, claims and looks of a sweep, and the files beside it."""

    path: Path

    @classmethod
    def of(cls, results: Path, name: str) -> "SweepFile":
        return cls(results / "sweeps" / f"{name}.json")

    @property
    def name(self) -> str:
        return self.path.name.removesuffix(".json")

    @property
    def asha(self) -> Path:
        """Returns the path of its ASHA decisions."""
        return self.path.with_name(f"{self.name}.asha.json")

    @property
    def lock(self) -> Path:
        """The lock that its driver holds."""
        return self.path.with_name(f"{self.name}.lock")

    @property
    def driver(self) -> dict[str, Any] | None:
        """The record of the live process that drives the sweep; None if there is none."""
        return owner(self.lock)

    def record(self) -> dict[str, Any]:
        """The content; {} for a missing file, and with a warning on stderr for a damaged one."""
        return read_or_tell(self.path) or {}

    def write(self, record: Mapping[str, Any]) -> None:
        """Replaces the content; a damaged file is set aside."""
        if os.path.lexists(self.path) and read_or_tell(self.path) is None:
            atomic.set_aside(self.path)
            log_once(f"warning: {display(self.path)}: kept as {self.path.name}.corrupt, with the looks and the times of claims that it has")
        document = json.loads(json.dumps(atomic.plain(record)))
        atomic.write_json(self.path, document | {"digest": _digest(document)}, points="sweep")


def sweep_name(file: str) -> str:
    """The name of the sweep to which a file of RESULTS/sweeps belongs, also a temporary one."""
    file = re.sub(r"^\.(.+)\.[0-9]+-[0-9a-f]{8}\.tmp$", r"\1", file)
    return re.sub(r"(\.lock(\.json)?|\.asha\.json|\.json|\.stop|\.hours)$", "", file)


class SweepRow:
    """A row and seed of a sweep. record: as in the file. scorings: keys by name of the scoring, as for `RunView.read`. keys: of its own.

    key: identity of the row within its sweep: address, seed and the three keys, without other scorings.
    """

    def __init__(self, record: Mapping[str, Any], sweep: str = "") -> None:
        from orchestrator.ledger.keys import Keys  # deferred: it imports the specs, which `--help` does not need

        self.record, self.sweep, self.id, self.seed = record, sweep, str(record["id"]), int(record["seed"])
        self.name = f"{self.id} seed {self.seed}"
        named = {"": record["keys"]} | {name: other.get("keys") or {} for name, other in (record.get("also") or {}).items()}
        train = record["keys"].get("train")
        self.scorings = {name: Keys(train, keys.get("decode"), keys.get("score"), keys.get("tune")) for name, keys in named.items()}
        self.keys, self.train = self.scorings[""], str(train)
        self.key = sha256("\n".join([self.id, str(self.seed), self.train, self.keys.decode or "", self.keys.score or ""]))


@dataclass
class Sweeps:
    """Rows of all sweeps by train key, and by the train key of the run they start from. `unreadable`: names of files that do not parse.

    names: of each file, without its ending -> of its sweep.
    """

    names: dict[str, str] = field(default_factory=dict)
    live: dict[str, dict[str, Any]] = field(default_factory=dict)
    rows: dict[str, list[SweepRow]] = field(default_factory=lambda: defaultdict(list))
    children: dict[str, list[SweepRow]] = field(default_factory=lambda: defaultdict(list))
    unreadable: list[str] = field(default_factory=list)

    def driver(self, key: str) -> dict[str, Any] | None:
        """The record of the process that is driving a sweep with this run; None if there is none."""
        rows = (*self.rows.get(key, ()), *self.children.get(key, ()))
        return next((self.live[row.sweep] for row in rows if row.sweep in self.live), None)


def paths(results: Path) -> list[Path]:
    """The sweep files of a ledger by name, without those beside them and temporary ones."""
    found = (path for path in (results / "sweeps").glob("*.json") if not path.name.endswith(BESIDE))
    return sorted(path for path in found if not path.name.startswith("."))


def read(path: Path) -> dict[str, Any]:
    """The record of a sweep file. Raises ValueError with the reason if it is none."""
    if (reason := no_file(path)) is not None:
        raise ValueError(reason)
    try:
        record = parse(path.read_bytes())
        whole = isinstance(record, dict) and record.get("digest") == _digest(record)
    except OSError as error:
        raise ValueError(f"cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError):
        raise ValueError("holds no JSON; expected what a sweep writes") from None
    if not whole:
        raise ValueError("its digest is missing or not the one of its content")
    return dict(record)


def read_or_tell(path: Path) -> dict[str, Any] | None:
    """`read`; None for a missing file, and with a warning on stderr for a damaged one."""
    if not os.path.lexists(path):
        return None
    try:
        return read(path)
    except ValueError as error:
        log_once(f"warning: {display(path)}: {error}; the sweep is passed over")
        return None


def _digest(record: Mapping[str, Any]) -> str:
    """Returns the sha256 of the JSON of everything except the digest. `canonical` would be slow for sweeps with thousands of rows."""
    return sha256(json.dumps(unsealed(record), sort_keys=True, separators=(",", ":")))


def read_sweeps(results: Path) -> Sweeps:
    """Reads all sweep files, without locks and without changing anything."""
    found = Sweeps()
    folder = results / "sweeps"
    for path in paths(results):
        if (record := read_or_tell(path)) is None:
            found.unreadable.append(path.name)
            continue
        rows = asked(record)
        found.names[path.stem] = record.get("name") or path.stem
        for (_, seed), own in rows.items():
            row, parent = SweepRow(own, path.stem), rows.get(((own.get("spec") or {}).get("init_from"), seed))
            found.rows[row.train].append(row)
            if parent is not None:
                found.children[parent["keys"]["train"]].append(row)
    for path in sorted(folder.glob("*.lock.json")):  # a sweep that is just starting has a lock but no file
        name = path.name.removesuffix(".lock.json")
        if (holder := owner(folder / f"{name}.lock")) is not None:
            found.live[name] = holder
    return found


def asked(record: Mapping[str, Any]) -> dict[tuple[Any, int], Mapping[str, Any]]:
    """Returns (id, seed) -> row, of the last call that wrote the file and of earlier ones."""
    return {(row["id"], row["seed"]): row for part in ("rows", "earlier") for row in record.get(part, [])}


def rows_of(record: Mapping[str, Any]) -> list[SweepRow]:
    """Returns the rows of the last call, then other seeds that earlier calls asked for. Rows that were edited since are left out."""
    specs = {row["id"]: _unseeded(row) for row in record["rows"]}
    return [*map(SweepRow, record["rows"]), *(SweepRow(row) for row in record.get("earlier", []) if _unseeded(row) == specs.get(row["id"]))]


def _unseeded(row: Mapping[str, Any]) -> dict[str, Any]:
    return (row.get("spec") or {}) | {"seed": None}


def together(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> dict[str, Any]:
    """Returns our record of a sweep with their claims, their looks if these go on from ours, and their rows that ours lacks.

    These rows count as of earlier calls.
    """
    known, found = asked(ours), dict(ours)
    if lacking := [row for place, row in asked(theirs).items() if place not in known]:
        found["earlier"] = [*ours.get("earlier", []), *lacking]
    own = ours.get("claims") or []
    if new := [entry for entry in theirs.get("claims") or [] if entry not in own]:
        found["claims"] = sorted([*own, *new], key=lambda entry: float(entry["recorded"]))
    before, looks = ours.get("looks") or [], theirs.get("looks") or []
    return found | ({"looks": looks} if len(looks) > len(before) and looks[: len(before)] == before else {})


def with_claims(earlier: Sequence[Mapping[str, Any]], now: Sequence[Mapping[str, Any]], time: float) -> list[dict[str, Any]]:
    """Returns the claims for a sweep's file: the earlier entries, and a new entry for each table with new or changed claims.

    now: {"table", "file_sha256", "claims"} of each table that has claims.
    """
    found = [dict(entry) for entry in earlier]
    for entry in now:
        last = next((known for known in reversed(found) if known.get("table") == entry["table"]), None)
        if last is None or last.get("claims") != entry["claims"]:
            found.append({"recorded": time, **entry})
    return found


def recorded_claims(roots: Iterable[Path], table: str) -> list[dict[str, Any]]:
    """{"recorded", "claim"} of each claim on a table in the sweep files of these ledgers."""
    records = (read_or_tell(path) or {} for root in roots for path in paths(root))
    entries = [entry for record in records for entry in record.get("claims") or [] if entry["table"] == table]
    return [{"recorded": entry["recorded"], "claim": claim} for entry in entries for claim in entry["claims"]]
