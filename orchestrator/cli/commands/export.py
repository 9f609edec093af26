"""`export`."""

from __future__ import annotations

from pathlib import Path

from orchestrator.cli.commands.rows import open_ledger, resolve_one
from orchestrator.cli.output import print_json
from orchestrator.data.prepare import prepare
from orchestrator.files.folders import need_folder, new_folder
from orchestrator.lifecycle.export_row import export_row
from orchestrator.lifecycle.translator import task_of
from orchestrator.safe_text import log
from orchestrator.sweeps.options import RowOptions


def export(target: str, seed: int | None, to: Path, options: RowOptions, as_json: bool) -> None:
    need_folder(options.data_dir, "--data-dir")
    need_folder(options.results, "--results")
    new_folder(to, "--to")
    row = resolve_one(target, seed, options)
    assert row.spec is not None
    task = task_of(row, options)
    prepared = prepare(row.spec.data, options.data_dir, options.cache_dir)
    exported = export_row(row, task, prepared, open_ledger(options.results), to)
    if as_json:
        record = {"folder": str(to), "id": row.id, "seed": task.seed, "weights_sha256": exported.weights_sha256, "files": exported.files}
        print_json(record | {"scores": exported.metadata["scores"], "keys": task.keys.as_dict()})
    log(f"{to}: {len(exported.files)} files, {sum(exported.files.values())} bytes; weights {exported.weights_sha256}")
    log(f"try:  python {to / 'translate.py'} < source.txt")
