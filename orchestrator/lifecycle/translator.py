"""Loads the trained model of one row from the ledger."""

from dataclasses import replace
from typing import Any

from orchestrator.data.expected_text import TRAINING, of_files, unexpected
from orchestrator.data.prepare import prepare
from orchestrator.data.store import Prepared
from orchestrator.decoding.validation_bleu import tuned_decode
from orchestrator.errors import UserError
from orchestrator.ledger import component_sources
from orchestrator.ledger.results import Ledger
from orchestrator.ledger.run_files import Store
from orchestrator.lifecycle.loader import Translator
from orchestrator.report.find import Finder
from orchestrator.specs.controls import TUNED
from orchestrator.specs.corpora import load_entry
from orchestrator.specs.row import Row
from orchestrator.sweeps.names import as_targets
from orchestrator.sweeps.options import ExecutionOptions, RowOptions, quoted
from orchestrator.sweeps.plan import Data
from orchestrator.sweeps.task import Task, make_tasks


def task_of(row: Row, options: RowOptions) -> Task:
    """Returns the task of a row at its seed. UserError: its corpus is absent; a line before it says if no scored run has the spec."""
    folders = ExecutionOptions(name=row.id, results=options.results, data_dir=options.data_dir, cache_dir=options.cache_dir)
    try:
        return make_tasks([row], [row.run_spec.seed], folders)[-1]
    except UserError as error:  # without the corpus a run has no key, but its record has its spec
        if _finder(options).keys(row) is not None:
            raise
        what = f"{row.id}: no scored run in {options.results} for seed {row.run_spec.seed}"
        raise UserError(f"{what}; expected {_training(row, options)}", *error.lines) from None


def _finder(options: RowOptions) -> Finder:
    return Finder(Ledger(options.results), Data(options.data_dir, options.cache_dir))


def _training(row: Row, options: RowOptions) -> str:
    return f"nmt-ablate run{quoted([as_targets(row)[1]])} --seed {row.run_spec.seed}{options.arguments} first"


def load_translator(row: Row, options: RowOptions) -> Translator:
    """Returns the translator of a row. UserError: it was not trained with its seed, or its weights or its corpus are missing."""
    task = task_of(row, options)
    store = Store(task.run_dir, task.train_key)
    if not store.has_weights():
        command = _training(row, options)
        if Ledger(options.results).read_train(task.train_key) is not None:  # `run` repeats no finished work
            folders = replace(options, profile=None, sets=None, controls=None)
            command = f"nmt-ablate repro {task.train_key[:16]} --into FOLDER{folders.table_arguments} first, and FOLDER as --results"
        elif not row.id.endswith(TUNED) and _finder(options).trials(row):
            command += f", or {row.id}{TUNED}, as its search has chosen it"
        changed = unexpected(task.spec.data.corpus, of_files(load_entry(task.spec.data.corpus), options.data_dir, TRAINING))
        expected = "; ".join([*changed, f"expected {'the earlier text, or ' if changed else ''}{command}"])
        raise UserError(f"{row.id}: no trained weights in {options.results} for seed {task.seed}; {expected}")
    prepared = prepare(task.spec.data, options.data_dir, options.cache_dir)
    for name in prepared.config["vocabularies"]:
        prepared.vocabulary(name)  # verified
    return Translator(prepared.path, config(task, prepared, Ledger(options.results)), store.weights(task.spec.decode.checkpoint))


def config(task: Task, prepared: Prepared, ledger: Ledger) -> dict[str, Any]:
    """What a `Translator` needs besides weights and vocabularies.

    Raises UserError if the length penalty was not tuned yet, or a component changed since the training."""
    component_sources.check_unchanged(task.name, task.train_key, ledger)
    return {
        "format": 1,
        "id": task.id,
        "seed": task.seed,
        "threads": task.spec.train.threads,
        "text": prepared.config,
        "src_size": prepared.src_size,
        "tgt_size": prepared.tgt_size,
        "model": task.spec.model.model_dump(mode="json"),
        "decode": tuned_decode(task.spec.search, task.keys, ledger, task.id).model_dump(mode="json"),
    }
