"""Stdin to stdout through the trained model of one row."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import cast


def translate_stream(
    row: str,
    *,
    seed: int | None,
    profile: str | None,
    sets: list[str] | None,
    data_dir: Path | None,
    results: Path,
    cache_dir: Path,
) -> None:
    """UserError where the row was not trained, its weights are gone, or stdin is not UTF-8."""
    from orchestrator.errors import UserError
    from orchestrator.specs.rows import resolve

    rows = [r for r in resolve(row, sets=sets, profile=profile, seed=seed) if r.kind == "run"]
    if len(rows) != 1 or rows[0].spec is None:
        raise UserError(f"{row}: found {len(rows)} rows that run; expected one: {', '.join(r.id for r in rows[:24])}")
    spec = rows[0].spec

    from orchestrator import cpu
    from orchestrator.data.prepare import prepare
    from orchestrator.decoding.length_penalty import known
    from orchestrator.decoding.translate import Codec, lines_of, translate_lines
    from orchestrator.ledger.results import Ledger
    from orchestrator.ledger.run_files import Store
    from orchestrator.safe_text import say
    from orchestrator.sweeps.driver import make_tasks
    from orchestrator.sweeps.options import ExecutionOptions
    from orchestrator.sweeps.row import load_model
    from orchestrator.training.runtime import best_device

    options = ExecutionOptions(name=rows[0].id, results=results, data_dir=data_dir, cache_dir=cache_dir)
    task = make_tasks(rows, [spec.seed], options)[-1]
    store = Store(task.run_dir, task.train_key)
    if not store.has_weights():
        raise UserError(f"{rows[0].id}: no trained weights in {results} for seed {spec.seed}; expected nmt-ablate run {row} first")
    lines = lines_of(sys.stdin.buffer.read())
    cpu.use(spec.train.threads)
    prepared = prepare(spec.data, data_dir, cache_dir)
    model = load_model(spec, prepared, store, best_device())
    search = known(spec.search, task.run_keys, Ledger(results), rows[0].id)
    text = cast(Codec, SimpleNamespace(encode=prepared.encode_text, decode=prepared.decode))  # stdin is running text
    for line in translate_lines(model, text, lines, search, say):
        sys.stdout.write(line + "\n")
