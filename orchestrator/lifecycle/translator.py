"""The trained model of one row, with the text processing of its corpus."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import cast

from models.transformer import Transformer
from orchestrator import cpu
from orchestrator.data.prepare import prepare
from orchestrator.data.store import Prepared
from orchestrator.decoding.length_penalty import tuned_decode
from orchestrator.decoding.translate import Codec, translate_lines
from orchestrator.errors import UserError
from orchestrator.ledger.results import Ledger
from orchestrator.ledger.run_files import Store
from orchestrator.safe_text import log
from orchestrator.specs.row import Row
from orchestrator.specs.schema import DecodeSpec
from orchestrator.sweeps.names import as_targets
from orchestrator.sweeps.options import ExecutionOptions, RowOptions, quoted
from orchestrator.sweeps.row import load_model
from orchestrator.sweeps.tasks import make_tasks
from orchestrator.training.runtime import best_device


class Translator:
    """Translates running text with the search that scored the row.

    Args:
        row: With the seed of the training.
        model: On its device, ready to decode.
        search: Beam and length penalty, the tuned one where it was tuned.
    """

    def __init__(self, row: Row, model: Transformer, prepared: Prepared, search: DecodeSpec) -> None:
        self.row, self.model, self.search = row, model, search
        self._codec = cast(Codec, SimpleNamespace(encode=prepared.encode_text, decode=prepared.decode))

    def translate(self, lines: Sequence[str], warn: Callable[[str], None] = log) -> list[str]:
        """Translations in the order of `lines`, one sentence each. warn: called with a message for each line that is cut."""
        return translate_lines(self.model, self._codec, lines, self.search, warn)


def load_translator(row: Row, options: RowOptions) -> Translator:
    """UserError where the row was not trained with its seed, its weights are gone, or its corpus is absent."""
    spec, results = row.spec, options.results
    assert spec is not None
    folders = ExecutionOptions(name=row.id, results=results, data_dir=options.data_dir, cache_dir=options.cache_dir)
    task = make_tasks([row], [spec.seed], folders)[-1]
    store = Store(task.run_dir, task.train_key)
    if not store.has_weights():
        command = f"nmt-ablate run{quoted([as_targets(row)[1]])}{options.arguments}"
        raise UserError(f"{row.id}: no trained weights in {results} for seed {spec.seed}; expected {command} first")
    cpu.use(spec.train.threads)
    prepared = prepare(spec.data, options.data_dir, options.cache_dir)
    model = load_model(spec, prepared, store, best_device())
    return Translator(row, model, prepared, tuned_decode(spec.search, task.keys, Ledger(results), row.id))
