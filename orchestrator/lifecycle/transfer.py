"""Moves a ledger to another machine: `export_ledger` writes an archive, `import_ledger` merges one into a results folder.

`export_packed` writes the packed form, which `Ledger` reads as it is; `import_ledger` turns it into files.

An import is unpacked next to the ledger, then verified and compared as a whole, and refused if a run differs. It then copies what is
absent: a new run by one rename, an existing run file by file with its final record last, and sweep files at the end. A killed import leaves
consistent runs, and a second call completes it.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any

from orchestrator import interrupt
from orchestrator.errors import LockedError, UserError
from orchestrator.faults import fault
from orchestrator.files import atomic
from orchestrator.files.folders import make
from orchestrator.ledger import layout, packed, packing
from orchestrator.ledger.packed import runs as packed_and_loose
from orchestrator.ledger.packed import tables_in
from orchestrator.ledger.run_lock import RunLock
from orchestrator.ledger.sweep_files import SweepFile, Sweeps, read_sweeps, sweep_name
from orchestrator.lifecycle import archive
from orchestrator.lifecycle.collect import empty_trash, exclusive, move_to_trash, temporary_lock
from orchestrator.lifecycle.merge import Merge, compare_run, compare_sweep
from orchestrator.specs.positions import display, nearest, shown

CHOICES = ("refuse", "keep", "replace")


@dataclass
class Imported:
    """Names of runs by the action taken. files: number of files written. manifest_sha256: of the archive's manifest."""

    manifest_sha256: str
    added: list[str] = field(default_factory=list)
    completed: list[str] = field(default_factory=list)
    replaced: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    same: list[str] = field(default_factory=list)
    sweeps: list[str] = field(default_factory=list)
    files: int = 0

    def as_json(self) -> dict[str, Any]:
        return dict(vars(self))


def export_ledger(
    results: Path, path: Path, *, weights: bool = False, only: Sequence[str] = (), version: str = ""
) -> tuple[archive.Manifest, list[str]]:
    """Writes an archive. Returns (its manifest, names of the runs left out because a process is working on them).

    only: names of sweeps to export; all runs by default. Raises UserError for an unknown sweep, an existing file and an empty ledger.
    """
    if path.exists():
        raise UserError(f"{display(path)}: is there already; expected a new file")
    if not path.parent.is_dir():
        raise UserError(f"{display(path.parent)}: no such folder")
    if tables_in(results):
        raise UserError(f"{display(results)}: holds packed runs; expected a folder that `results import {display(results)}` filled")
    runs, live = _chosen(results, only)
    names = [name for run in runs for name in layout.of_run(run, weights=weights)]
    names += layout.of_sweeps(results, list(only) or None)
    by = f"nmt-ablate {version}".strip()
    return archive.write(path, results, names, created_by=by, runs=len(runs), weights=weights), live


def export_packed(results: Path, dest: Path, only: Sequence[str] = ()) -> tuple[dict[str, int], list[str]]:
    """Writes the packed form of runs and copies their sweep files. Returns (runs per table, names of the runs left out as above)."""
    runs, live = _chosen(results, only)
    written = packing.write(runs, dest)
    for name in layout.of_sweeps(results, list(only) or None):
        atomic.write_bytes(dest / name, (results / name).read_bytes())
    return written, live


def _chosen(results: Path, only: Sequence[str]) -> tuple[list[Path], list[str]]:
    """(Folders of the runs to export, names of the runs that a process is working on). UserError for an unknown sweep, and for no run."""
    sweeps = read_sweeps(results)
    for name in only:
        if name not in sweeps.names:
            raise UserError(f"--sweep {shown(name)}: no such sweep in {display(results)}; {nearest(name, sweeps.names)}")
    requested = {key[:16] for key, named in sweeps.rows.items() if any(one.sweep in only for one in named)}
    runs = [run for run in packed_and_loose(results) if not run.is_symlink() and (not only or run.name in requested)]
    live = [run.name for run in runs if layout.is_live(results, run.name)]
    chosen = [run for run in runs if run.name not in live and packing.names_of(run)]
    if not chosen:
        raise UserError(f"{display(results)}: holds no run" + (f" but {len(live)} that are being worked on" if live else ""))
    return chosen, live


def import_ledger(
    path: Path,
    results: Path,
    *,
    conflicts: str = "refuse",
    max_bytes: int = archive.MAX_BYTES,
    sha256: str | None = None,
    dry_run: bool = False,
) -> Imported:
    """Merges an archive into `results`.

    conflicts: what to do with runs that differ: refuse (UserError with one line per run), keep (ours) or replace (theirs). sha256: expected
    hash of the manifest. dry_run: write nothing. Raises UserError for an invalid archive and LockedError if a process holds a run that
    would change.
    """
    if not path.is_file() and not tables_in(path):
        raise UserError(f"{display(path)}: {'is a folder without packed runs; expected a file' if path.is_dir() else 'no such file'}")
    created = not results.exists()
    make(results, "--results")
    staging = results / f".import-{os.getpid()}-{secrets.token_hex(4)}"
    try:
        with interrupt.raising(), exclusive(results):
            try:
                staging.mkdir(mode=0o700)
                return _import(path, results, staging, conflicts, max_bytes, sha256, dry_run)
            finally:
                shutil.rmtree(staging, ignore_errors=True)
                empty_trash(results)
    finally:
        if created and not any(results.iterdir()):
            results.rmdir()


def _import(path: Path, results: Path, staging: Path, conflicts: str, max_bytes: int, sha256: str | None, dry_run: bool) -> Imported:
    unpack = _unpack_packed if path.is_dir() else archive.unpack
    manifest = unpack(path, staging, max_bytes=max_bytes, check_space=lambda size: _check_disk_space(results, size))
    if sha256 is not None and sha256.lower() != manifest.sha256:
        raise UserError(f"{display(path)}: its manifest has sha256 {manifest.sha256}; expected {shown(sha256)}")
    if problems := list(layout.problems_of(staging, list(manifest.files))):
        more = [f"and {len(problems) - 20} more"] if len(problems) > 20 else []
        raise UserError(*(f"{display(path)}: {line}" for line in problems[:20]), *more)
    _refuse_links(results, manifest.files)
    by_run: dict[str, list[str]] = defaultdict(list)
    for name in manifest.files:
        by_run[name.partition("/")[0]].append(name)
    sweeps = {name: compare_sweep(staging / name, results / name) for name in by_run.pop("sweeps", [])}
    merges = [compare_run(run, names, staging, results) for run, names in sorted(by_run.items())]
    if conflicts == "refuse":
        lines = [merge.line(staging, results) for merge in merges if merge.differ]
        found = [name for name, verdict in sweeps.items() if verdict == "differ"]
        lines += [f"{name}: the sweep has other rows, or its scheduler decided otherwise, here" for name in found]
        if lines:
            raise UserError(*lines, "nothing was imported; --on-conflict keep leaves these as they are here, replace takes the archive's")
    imported = Imported(manifest.sha256)
    todo = []
    for merge in merges:
        if merge.differ:
            (imported.replaced if conflicts == "replace" else imported.kept).append(merge.run)
        elif not (results / merge.run).is_dir():
            imported.added.append(merge.run)
        else:
            (imported.completed if merge.add else imported.same).append(merge.run)
        if merge.run not in (*imported.kept, *imported.same):
            todo.append(merge)
    installed = [name for name, verdict in sweeps.items() if verdict == "add" or (verdict == "differ" and conflicts == "replace")]
    _refuse_live(results, [merge.run for merge in todo], installed)
    imported.sweeps = [name.removeprefix("sweeps/").removesuffix(".json") for name in installed]
    if not dry_run:
        imported.files = sum(_apply(merge, staging, results) for merge in todo) + len(installed)
        for name in installed:
            with temporary_lock(RunLock(SweepFile.of(results, _sweep_name(name)).lock)):
                _install(staging / name, results / name)
    return imported


def _unpack_packed(path: Path, staging: Path, *, max_bytes: int, check_space: Callable[[int], None]) -> archive.Manifest:
    """Writes the files of packed runs into `staging`. The sha256 covers the packed files."""
    tables = sorted(path.glob(f"{packed.FOLDER}/*.zst"))
    size = sum(len(packed.read_content(table)) for table in tables)
    if size > max_bytes:
        raise UserError(f"{display(path)}: holds {size} bytes; expected at most {max_bytes} (--max-gb)")
    check_space(size)
    names = [name for name in tables_in(path) if layout.belongs(name)]
    packing.write_files(path, names, staging)
    sweeps = layout.of_sweeps(path, None)
    for name in sweeps:
        atomic.write_bytes(staging / name, (path / name).read_bytes())
    sums = "".join(f"{hashlib.sha256(table.read_bytes()).hexdigest()}  {table.name}\n" for table in tables)
    files = {name: archive.entry_of(staging / name) for name in [*names, *sweeps]}
    return archive.Manifest(files=files, sha256=hashlib.sha256(sums.encode()).hexdigest())


def _refuse_links(results: Path, names: Iterable[str]) -> None:
    """Raises UserError if an import would follow a symbolic link in the results folder."""
    for part in dict.fromkeys(part for name in names for part in (*list(PurePath(name).parents)[-2::-1], PurePath(name))):
        if (results / part).is_symlink():
            raise UserError(f"{shown(str(results / part), 300)}: found a symbolic link; expected the ledger's own; nothing was imported")


def _refuse_live(results: Path, runs: Sequence[str], sweep_files: Sequence[str]) -> None:
    """Raises LockedError for runs and sweeps in use. Called before anything is written."""
    sweeps: Sweeps = read_sweeps(results)
    named = {key[:16]: key for key in (*sweeps.children, *sweeps.rows)}
    for run in runs:
        driver = sweeps.driver(named[run]) if run in named else None
        if driver or layout.is_live(results, run):
            raise LockedError(f"{run}: {driver or 'a process'} is at work on it; nothing was imported")
    for name in sweep_files:
        if _sweep_name(name) in sweeps.live:
            raise LockedError(f"{name}: the sweep runs; nothing was imported")


def _sweep_name(name: str) -> str:
    return sweep_name(name.removeprefix("sweeps/"))


def _apply(merge: Merge, staging: Path, results: Path) -> int:
    """Installs the files of one run. Returns the number of files written."""
    run = results / merge.run
    if not run.exists():
        _install(staging / merge.run, run)
        return len(merge.add)
    with temporary_lock(RunLock(run / "lock")):
        names = [*merge.add, *merge.differ]
        if merge.of_training:  # weights, translations and scores of two trainings must not mix
            for path in sorted(run.iterdir(), key=lambda path: path.name != "train.json"):  # this record marks a run as finished
                if not path.name.startswith("lock"):
                    move_to_trash(results, path)
            names = [path.relative_to(staging).as_posix() for path in (staging / merge.run).rglob("*") if path.is_file()]
        for name in sorted(names, key=_install_order):
            _install(staging / name, results / name)
        return len(names)


def _install(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    fault("import_pre_rename")
    source.rename(target)
    atomic.fsync_dir(target.parent)
    fault("import_post_rename")


def _install_order(name: str) -> tuple[int, str]:
    """Sort key for installation: files before the records that refer to them, train.json last."""
    if name.endswith("/train.json"):
        return 3, name
    if "/score/" in name:
        return 2, name
    return (1 if name.endswith(".json") else 0), name


def _check_disk_space(results: Path, size: int) -> None:
    free = shutil.disk_usage(results).free
    if size > free:
        raise UserError(f"{display(results)}: {free} bytes are free; the archive holds {size}")
