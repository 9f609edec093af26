"""`results export` and `results import`."""

from __future__ import annotations

import shlex
from pathlib import Path

from orchestrator.cli.output import print_json, version
from orchestrator.errors import UserError
from orchestrator.files.folders import make, need_folder, need_place
from orchestrator.ledger import object_store
from orchestrator.lifecycle.transfer import CHOICES, export_ledger, export_packed, import_ledger
from orchestrator.safe_text import log
from orchestrator.specs.positions import nearest, shown


def export(file: Path, results: Path, sweeps: list[str], *, weights: bool, packed: bool, as_json: bool) -> None:
    need_folder(results, "--results")
    if packed:
        _export_packed(file, results, sweeps, weights=weights, as_json=as_json)
        return
    need_place(file, "FILE.tar")
    manifest, left_out = export_ledger(results, file, weights=weights, only=sweeps, version=version())
    if as_json:
        record = {"file": str(file), "manifest_sha256": manifest.sha256, "bytes": manifest.size, "files": len(manifest.files)}
        print_json(record | manifest.model_dump(include={"created_by", "runs", "weights"}) | {"left_out": left_out})
    log(f"{file}: {manifest.runs} runs, {len(manifest.files)} files, {manifest.size} bytes; manifest sha256 {manifest.sha256}")
    for run in left_out:
        log(f"left out: {run}: a process is at work on it")


def _export_packed(folder: Path, results: Path, sweeps: list[str], *, weights: bool, as_json: bool) -> None:
    if weights:
        raise UserError("--packed: packed runs have no weights; expected one of --packed and --weights")
    make(folder, "FILE.tar")
    tables, left_out = export_packed(results, folder, sweeps)
    if as_json:
        print_json({"folder": str(folder), "tables": tables, "left_out": left_out})
    log(f"{folder}: {sum(tables.values())} runs of {len(tables)} tables, packed")
    for run in left_out:
        log(f"left out: {run}: a process is at work on it")


def import_(file: Path, results: Path, on_conflict: str, max_bytes: int, sha256: str | None, *, dry_run: bool, as_json: bool) -> None:
    if on_conflict not in CHOICES:
        raise UserError(f"--on-conflict {shown(on_conflict)}: {nearest(on_conflict, list(CHOICES))}")
    merged = import_ledger(file, results, conflicts=on_conflict, max_bytes=max_bytes, sha256=sha256, dry_run=dry_run)
    if not dry_run:
        object_store.push(results)
    if as_json:
        print_json({"results": object_store.display_path(results), "dry_run": dry_run, **merged.as_json()})
    counts = {
        "added": merged.added,
        "completed": merged.completed,
        "kept as here": merged.kept,
        "the same": merged.same,
    }
    line = ", ".join(f"{len(runs)} {word}" for word, runs in counts.items() if runs)
    log(f"{'would be: ' if dry_run else ''}runs: {line or 'none'}; sweeps: {len(merged.sweeps)}")
    if not dry_run and merged.files:
        log(f"MLflow:  nmt-ablate reconcile --results {shlex.quote(object_store.display_path(results))}")
