"""Options shared by several commands. Only the standard library is imported, since `--help` imports this module."""

import hashlib
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orchestrator.ledger import object_store

PARTS = ("search", "tuned")
"""Sweeps that belong to one command: NAME:PART; they share its cap."""
RESULTS = Path("results")
CACHE = Path(".data-cache")


def whole_name(sweep: str) -> str:
    """NAME for a part, NAME:PART; other names as they are."""
    whole, _, part = sweep.rpartition(":")
    return whole if part in PARTS else sweep


@dataclass(frozen=True, kw_only=True)
class RowOptions:
    """How rows are resolved, and the locations of their data and results: the options of the same names (`cli.options`)."""

    profile: str | None = None
    sets: list[str] | None = None
    data_dir: Path | None = None
    results: Path = RESULTS
    cache_dir: Path = CACHE
    controls: str | None = None
    tune: bool = False
    tune_with: Path | None = None
    ladder: str | None = None

    @property
    def arguments(self) -> str:
        """Command-line arguments that identify the same row in the same ledger when appended to its address; with a leading space."""
        words = ["--profile", self.profile] if self.profile else []
        words += [word for text in self.sets or [] for word in ("--set", text)]
        words += [] if self.results == RESULTS else ["--results", object_store.display_path(self.results)]
        return quoted(words)

    @property
    def table_arguments(self) -> str:
        """`arguments` with those that a table of the rows needs besides: where the corpora are, the controls, and the search."""
        words = ["--data-dir", str(self.data_dir)] if self.data_dir is not None else []
        words += [] if self.cache_dir == CACHE else ["--cache-dir", str(self.cache_dir)]
        return self.arguments + quoted(words) + self.judged

    @property
    def judged(self) -> str:
        """Arguments that say what the rows of a table are judged against, and by which search they are tuned."""
        words = [] if self.controls is None else ["--controls", self.controls]
        return quoted(words + ([] if self.tune_with is None else ["--tune-with", str(self.tune_with)]))


def quoted(words: Iterable[str]) -> str:
    """Words as a shell reads them, each after a space."""
    return "".join(f" {shlex.quote(word)}" for word in words)


def file_name(name: str, most: int = 200) -> str:
    """The name for files: what a ledger does not take in a name (`ledger.layout`) is replaced, and a digest keeps it unique."""
    plain = name.replace("/", "-").replace(":", "-")
    taken = re.sub(r"[^A-Za-z0-9@+._-]", "-", plain)[:most]
    return plain if plain == taken else f"{taken[: most - 9]}+{hashlib.sha256(name.encode('utf-8', 'replace')).hexdigest()[:8]}"


@dataclass(frozen=True, kw_only=True)
class ExecutionOptions(RowOptions):
    """How rows are executed. Nothing here is part of a key. Other fields are the options of the same names (`cli.options`).

    engine: `local`, `ray`, or `auto`, in whose place `engines.execute.choose_engine` puts one of them.
    name: Name of the sweep.
    sweep: The `sweep` section of the spec as plain data, resources included.
    claims: Claims of the tables, as `specs.claims.as_data` gives them.
    mirrors: Read-only ledgers that complement `results`.
    dropped: Runs, as `ROW:SEED`, that a look has dropped.
    train_only: Read no test set: runs are trained, and neither decoded nor scored.
    until: Row -> the rung at which its runs save and stop.
    """

    engine: str = "local"
    jobs: str = "1"
    workers: int | None = None
    no_tracking: bool = False
    tracking_uri: str | None = None
    resources: str | None = None
    as_json: bool = False
    name: str = ""
    sweep: dict[str, Any] | None = None
    claims: list[dict[str, Any]] = field(default_factory=list)
    mirrors: tuple[Path, ...] = ()
    max_hours: float | None = None
    until_decided: bool = False
    dropped: frozenset[str] = frozenset()
    train_only: bool = False
    until: Mapping[str, int] = field(default_factory=dict)

    @property
    def slug(self) -> str:
        return file_name(self.name)

    @property
    def has_workers(self) -> bool:
        """Returns whether rows run in separate processes, which the sweep's stop file stops."""
        return self.engine == "ray" or self.jobs != "1"

    @property
    def scheduler(self) -> dict[str, Any]:
        return (self.sweep or {}).get("scheduler") or {"kind": "fifo"}
