"""Runs one row from spec to score: trains, decodes and scores whatever is missing in the ledger."""

import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from models import native
from models.transformer import Transformer, build, count_parameters
from orchestrator import cpu, interrupt
from orchestrator.data import expected_text
from orchestrator.data.prepare import Prepared, prepare
from orchestrator.decoding.forced import reference_nll
from orchestrator.decoding.translate import decode_corpus
from orchestrator.decoding.validation_bleu import rung_bleu, tune, with_alpha
from orchestrator.files.json_lines import executed_steps
from orchestrator.ledger import component_sources, object_store
from orchestrator.ledger.provenance import collect
from orchestrator.ledger.results import Ledger, Record
from orchestrator.ledger.run_files import Store
from orchestrator.ledger.run_lock import RunLock
from orchestrator.ledger.run_view import Outcome, RunView
from orchestrator.ledger.statistics import pack
from orchestrator.ledger.weights import copy_into
from orchestrator.scoring.rouge import figures_of
from orchestrator.scoring.scores import score
from orchestrator.scoring.significance.sentence_statistics import of_translation, packed
from orchestrator.specs.schema import RunSpec
from orchestrator.sweeps.metric_compatibility import metric_warnings
from orchestrator.sweeps.task import Scoring, Task
from orchestrator.training.metrics import HistoryReporter, RungReporter, write_rung
from orchestrator.training.runtime import Reporter, Runtime
from orchestrator.training.state import Progress, TrainResult
from orchestrator.training.trainer import Trainer


def ledger_of(task: Task, lock: RunLock | None = None) -> Ledger:
    return Ledger(Path(task.results), [Path(m) for m in task.mirrors], lock=lock)


def view_of(task: Task, ledger: Ledger) -> RunView:
    """The state of the task's run. A score with damaged translations is missing, since `run_row` makes both again."""
    return RunView.read(ledger, task.scoring_keys, task.failed_below, texts=True)


def run_row(task: Task, runtime: Runtime, reporters: Sequence[Reporter] = ()) -> None:
    """Runs `task`. Finished work is not repeated. LockedError if another live process owns the run."""
    data_dir = None if task.data_dir is None else Path(task.data_dir)
    prepared = prepare(task.spec.data, data_dir, Path(task.cache_dir), expected=task.data_key)
    task.run_dir.mkdir(parents=True, exist_ok=True)
    # every worker asks, so that all end after the same update
    reporters = [*reporters, RungReporter(task.name, lambda rung: rung["rung"] != task.until, "the search")]
    if not runtime.is_main:
        if runtime.any(False):  # does the main worker train?
            object_store.pull(task.run_dir)  # on another machine: the main worker has published the checkpoint
            _train(task, runtime, prepared, Ledger(Path(task.results)), None, reporters)
        return
    with (
        RunLock(task.run_dir / "lock", runtime.claim) as lock,
        closing(HistoryReporter(task.run_dir / "history.jsonl", points="history")) as history,
    ):
        ledger = ledger_of(task, lock)
        ledger.remove_temporary(task.train_key)
        own: list[Reporter] = [history, partial(write_rung, ledger, task.train_key), *reporters]
        record = ledger.read_train(task.train_key)
        store = Store(task.run_dir, task.train_key, lock)
        if task.weights_needed:
            object_store.pull(task.run_dir)
        if trains := runtime.any(needs_training(task, ledger)):
            record = _train(task, runtime, prepared, ledger, lock, own)
            ledger = Ledger(Path(task.results), lock=lock)  # translations in mirrors are of other weights
        elif spec_is_damaged(task, ledger):
            _write_spec(task, ledger)
        assert record is not None
        if record["status"] == "done":
            _decode_and_score(task, runtime, prepared, ledger, store, trains)


def run_unless_stopped(task: Task, runtime: Runtime, reporters: Sequence[Reporter]) -> bool:
    """`run_row` in a worker process. Returns False if the sweep was stopped; the next call resumes from the checkpoint."""
    if task.sweep is not None:
        interrupt.watch(interrupt.stop_file(Path(task.results), task.sweep))
    if runtime.any(interrupt.requested()):  # all workers of a row agree
        return False
    try:
        run_row(task, runtime, reporters)
    except KeyboardInterrupt:
        return False
    return True


def needs_training(task: Task, ledger: Ledger) -> bool:
    """Stopped and failed runs resume. A finished run without weights (in a mirror) trains again only for what needs its weights."""
    view = view_of(task, ledger)
    if view.trained in (None, "stopped", "failed"):
        return True
    lacks_weights = view.trained == "done" and not Store(task.run_dir, task.train_key).has_weights()
    return view.trains_again or (task.weights_needed and lacks_weights)


def _train(
    task: Task, runtime: Runtime, prepared: Prepared, ledger: Ledger, lock: RunLock | None, reporters: Sequence[Reporter]
) -> dict[str, Any]:
    spec = task.spec
    init_weights, origin = None, dict[str, Any](sources=component_sources.hashes(spec.model))
    if task.parent_key is not None and spec.start is not None:
        object_store.pull(Path(task.results) / task.parent_key[:16])
        init_weights = Store(Path(task.results) / task.parent_key[:16], task.parent_key).weights(spec.start)
        weights = (ledger.read_train(task.parent_key) or {}).get("weights_sha256")
        origin["parent"] = {"key": task.parent_key, "weights_sha256": weights}
    if runtime.is_main:
        _write_spec(task, ledger)
    store = Store(task.run_dir, task.train_key, lock)
    trainer = Trainer(
        spec,
        runtime,
        reporters,
        prepared,
        store,
        rungs=task.rungs,
        init_weights=init_weights,
        rung_metrics=rung_bleu(spec, prepared) if task.rung_bleu and runtime.is_main else None,
        origin=origin,
    )
    result = trainer.train()
    record = {"sweep": task.sweep, "world_size": runtime.world_size} | result.to_json()
    record["text"] = expected_text.of_prepared(prepared) | {"leaked": prepared.stats.get("leaked", {})}
    if runtime.is_main:
        record["executed_steps"] = executed_steps(task.run_dir / "journal.jsonl")
        ledger.write_capsule(task.train_key, collect(device=str(runtime.device), threads=spec.train.threads))
        ledger.write_train(task.train_key, record)
    return record


def stopped_record(task: Task, rung: int) -> dict[str, Any]:
    """Returns the training record of a run whose process Ray ended at a rung, before it could write one: from the rung's checkpoint."""
    reason = f"stopped by ASHA at step {rung}"
    object_store.pull(task.run_dir)
    saved = Store(task.run_dir, task.train_key).latest(lambda path, problem: None, repair=False)
    if saved is None or saved.step != rung:  # damaged
        return {"status": "stopped", "reason": reason, "steps": rung}
    progress, weights = Progress(**saved.state["progress"]), saved.tensors["model"]
    result = TrainResult("stopped", reason, progress, sum(tensor.numel() for tensor in weights.values()), weights)
    world = {"world_size": progress.workers[-1][1], "executed_steps": executed_steps(task.run_dir / "journal.jsonl")}
    return world | result.to_json()


def spec_is_damaged(task: Task, ledger: Ledger) -> bool:
    return (task.run_dir / "spec.yaml").is_file() and ledger.read_spec(task.train_key) is None


def _write_spec(task: Task, ledger: Ledger) -> None:
    ledger.write_spec(task.train_key, {"id": task.id, "seed": task.seed, "spec": task.spec.model_dump(), "keys": task.keys.as_dict()})


def load_model(task_spec: RunSpec, prepared: Prepared, store: Store, device: torch.device) -> Transformer:
    """Loads the trained model of `spec.decode.checkpoint`, ready to decode."""
    model = build(task_spec.model.model_dump(), prepared.src_size, prepared.tgt_size, task_spec.seed)
    copy_into(model, store.weights(task_spec.decode.checkpoint))
    return model.to(device).eval()


def _decode_and_score(task: Task, runtime: Runtime, prepared: Prepared, ledger: Ledger, store: Store, trained: bool) -> None:
    """Computes missing scores. Scorings of one test set share its decoding.

    trained: by this process, whose code is the training's. UserError: weights of an earlier call, whose components changed since."""
    model: Transformer | None = None
    scores = view_of(task, ledger).scores
    for scoring in [scoring for name, scoring in task.scorings.items() if scores[name] is None and scoring.keys.score]:
        decode_key, score_key, test = scoring.keys.decode, scoring.keys.score, scoring.spec.test
        assert decode_key is not None and score_key is not None
        decoded = ledger.read_decode(task.train_key, decode_key)
        if decoded is None:
            if model is None and not trained:
                component_sources.check_unchanged(task.name, task.train_key, ledger)
            if model is None:
                cpu.use(task.spec.train.threads)
                model = load_model(task.spec, prepared, store, runtime.device)
            _decode(task, model, prepared, ledger, scoring)
            decoded = ledger.read_decode(task.train_key, decode_key)
            assert decoded is not None
        scored = score(decoded["hypotheses"], decoded["tokens"], prepared, test, scoring.spec)
        if warnings := metric_warnings(prepared, task.spec.data, scoring.spec):
            scored["doubts"] = warnings
        record = {"decode_key": decode_key, "score": scoring.spec.model_dump(exclude_none=True)}
        record["text"] = expected_text.of_prepared(prepared, [test])
        found = of_translation(decoded["hypotheses"], decoded["tokens"], prepared, test, scoring.spec, decoded.get("nll"))
        ledger.write_record(task.train_key, "score", score_key, record | scored | {"statistics": packed(found)})


def _decode(task: Task, model: Transformer, prepared: Prepared, ledger: Ledger, scoring: Scoring) -> None:
    key, search = scoring.keys.decode, task.spec.model_copy(update={"score": scoring.spec}).search
    assert key is not None
    tuned = {}
    if scoring.keys.tune is not None:
        tuning = ledger.record(task.train_key, "tune", scoring.keys.tune)
        if tuning is None:
            tuning = tune(model, prepared, search, scoring.spec)
            ledger.write_record(task.train_key, "tune", scoring.keys.tune, tuning)
        search, tuned = with_alpha(search, tuning["alpha"]), {"length_penalty": tuning["alpha"]}
    sources = prepared.encode(prepared.sources(scoring.spec.test))
    started = time.perf_counter()
    outputs = decode_corpus(model, sources, search)
    seconds = time.perf_counter() - started
    with torch.inference_mode():
        is_native = native.runs_on(next(model.parameters()))
    ids = [hypothesis.ids for hypothesis in outputs]
    record = {
        "sentences": len(ids),
        "seconds": round(seconds, 3),
        "sentences_per_second": round(len(ids) / seconds, 2),
        "tokens_per_second": round(sum(len(i) + 1 for i in ids) / seconds, 1),
        "params": count_parameters(model),
        "native": is_native,
        "tokens": prepared.decode_tokens(ids),
    }
    nll = reference_nll(model, sources, prepared.encode(prepared.references(scoring.spec.test)[0], "tgt"))
    if nll is not None:
        record["nll"] = pack(nll)
    ledger.write_decode(task.train_key, key, record | tuned, prepared.decode(ids))


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """Result of a row and seed in a sweep. outcome: of the run, or `failed` if this call could not run it. folder: the run's folder."""

    id: str
    seed: int
    view: RunView
    outcome: Outcome
    folder: str

    def as_json(self) -> dict[str, Any]:
        """The public record. status: `new` without a record, `trained` if a score is missing.

        failed_as_stated: it failed by the row's own rule (see `ledger.run_view`), which is an outcome, not an error.
        also: {"bleu", "signature"} of each other scoring by name, null if it is missing.
        changed: source files of components that were edited since the training (see `ledger.component_sources`).
        """
        view, names = self.view, ("params", "tokens_per_second", "sentences_per_second", "weights_sha256", "seconds")
        measured = {name: view.training.get(name) for name in names} | {"sentences_per_second": view.sentences_per_second}
        return {
            "id": self.id,
            "seed": self.seed,
            "keys": view.keys.as_dict(),
            "status": self.outcome.status,
            "reason": self.outcome.reason,
            "failed_as_stated": self.outcome.as_stated,
            "steps": view.steps,
            **_figure(view.score),
            "chrf": view.score["chrf"]["score"] if view.score else None,
            "also": {name: _figure(record) for name, record in view.scores.items() if name},
            **measured,
            "changed": view.changed,
            "result": self.folder,
        }


def _figure(scored: Record | None) -> dict[str, Any]:
    return {"bleu": scored["bleu"] if scored else None, "signature": scored["signature"] if scored else None} | figures_of(scored)
