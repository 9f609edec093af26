"""`translate`: stdin to stdout through the trained model of one row."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import cast

from orchestrator import cpu
from orchestrator.cli.commands.rows import resolve_one
from orchestrator.data.prepare import prepare
from orchestrator.decoding.length_penalty import tuned_decode
from orchestrator.decoding.translate import Codec, lines_of, translate_lines
from orchestrator.errors import UserError
from orchestrator.files.folders import need_folder
from orchestrator.ledger.results import Ledger
from orchestrator.ledger.run_files import Store
from orchestrator.safe_text import log
from orchestrator.sweeps.options import ExecutionOptions, RowOptions
from orchestrator.sweeps.row import load_model
from orchestrator.sweeps.tasks import make_tasks
from orchestrator.training.runtime import best_device


def translate(target: str, seed: int | None, options: RowOptions) -> None:
    """UserError where the row was not trained, its weights are gone, or stdin is not UTF-8."""
    need_folder(options.data_dir, "--data-dir")
    row = resolve_one(target, seed, options)
    spec, results = row.spec, options.results
    assert spec is not None
    folders = ExecutionOptions(name=row.id, results=results, data_dir=options.data_dir, cache_dir=options.cache_dir)
    task = make_tasks([row], [spec.seed], folders)[-1]
    store = Store(task.run_dir, task.train_key)
    if not store.has_weights():
        raise UserError(f"{row.id}: no trained weights in {results} for seed {spec.seed}; expected nmt-ablate run {target} first")
    lines = lines_of(sys.stdin.buffer.read())
    cpu.use(spec.train.threads)
    prepared = prepare(spec.data, options.data_dir, options.cache_dir)
    model = load_model(spec, prepared, store, best_device())
    search = tuned_decode(spec.search, task.run_keys, Ledger(results), row.id)
    codec = cast(Codec, SimpleNamespace(encode=prepared.encode_text, decode=prepared.decode))  # stdin is running text
    for line in translate_lines(model, codec, lines, search, log):
        sys.stdout.write(line + "\n")
