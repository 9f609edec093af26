"""Two gloo workers equal one at the same global batch, and end together."""

import json
import os
import shutil
import signal
from contextlib import suppress
from pathlib import Path
from unittest.mock import patch

import pytest
import torch

from benchmarks.mlflow_server import free_port
from orchestrator import interrupt
from orchestrator.data.prepare import manifest, prepare
from orchestrator.files.json_lines import executed_steps
from orchestrator.ledger.keys import keys_of
from orchestrator.ledger.run_files import Store
from orchestrator.sweeps.row import ledger_of, run_row, view_of
from orchestrator.sweeps.task import Task
from orchestrator.training import trainer
from orchestrator.training.metrics import SAMPLES
from orchestrator.training.runtime import Runtime
from orchestrator.training.trainer import STOP_POLL_EVERY
from tests.unit.training.support import KEY, OFF, Recorder, changed, fit

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]  # two processes that import torch: a busy machine takes its time
DENSE = {"layer": {"kind": "convolution", "widths": 6, "residual": False}, "connection": {"kind": "concatenated", "sumlen": 3}}
CONVOLUTIONAL = {"num_layers": 3} | DENSE
HIERARCHICAL = {"num_layers": 2, "connection": {"kind": "hierarchical"}}
VARIANTS = {
    "plain": {},
    "hierarchical-diversity": {"encoder": HIERARCHICAL, "decoder": HIERARCHICAL, "regularizers": [{"kind": "diversity", "weight": 0.5}]},
    "mlrf": {
        "encoder": {"num_layers": 2, "aggregation": {"kind": "mlrf-self-attention", "d_a": 8, "d_f": 8}},
        "decoder": {"num_layers": 2, "aggregation": {"kind": "mlrf-fnn", "d_f": 8}},
    },
    "multiscale-dlcl-l2-recomputed": {
        "encoder": {"num_layers": 4, "connection": {"kind": "dlcl"}, "self_attention": {"kind": "contextual"}},
        "decoder": {"num_layers": 2, "connection": {"kind": "dlcl"}, "cross_attention": {"kind": "contextual"}},
        "context": {"kind": "multiscale", "blocks": 2},
        "bridge": {"kind": "multiscale", "blocks": 2},
        "regularizers": [{"kind": "encoder_l2", "weight": 0.01}],
    },
    "densenmt": {
        "norm": "post", "positions": "learned", "max_positions": 251, "word_dim": 10, "weight_norm": True, "init": "convs2s",
        "encoder": CONVOLUTIONAL, "decoder": CONVOLUTIONAL | {"cross_attention": {"kind": "multistep"}},
        "bridge": {"kind": "dense_attention_2"},
    },
    "unread-top": {side: HIERARCHICAL | {"aggregation": {"kind": "linear"}} for side in ("encoder", "decoder")},
    "nag-plateau": {},
    "sentences-resumed": {},  # one sentence an update: a worker is idle; stopped after 7 updates, between two reports
}  # fmt: skip
PLATEAU = {"kind": "plateau", "lr": 0.5, "shrink": 0.5, "min_lr": 0.05}  # from so high a rate that validations rise


def _spec(name):
    recompute = "layers" if name.endswith("recomputed") else "none"
    nag = name == "nag-plateau"
    optim = {"kind": "nag", "clip_norm": 0.1, "schedule": PLATEAU} if nag else {}
    train = {"validate_every": 1, "max_steps": 20} if nag else {} if name == "plain" else {"max_steps": 10}
    batch = {"unit": "sentences", "size": 1} if name == "sentences-resumed" else {"accumulate": 2}
    return changed(model={"dropout": OFF} | VARIANTS[name], batch=batch, optim=optim, train={"recompute": recompute} | train)


def _runtime(rank: int, port: int) -> Runtime:
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    torch.distributed.init_process_group("gloo", rank=rank, world_size=2)
    return Runtime(rank, 2)


def _workers(rank: int, port: int, folder: str, cache: str) -> None:
    """Every training of two workers, one after the other: a process costs seconds before it trains."""
    base, runtime = Path(folder), _runtime(rank, port)
    ready = prepare(_spec("plain").data, None, Path(cache))
    torch.set_default_dtype(torch.float64)
    for name in VARIANTS:
        recorder = Recorder()
        if name == "sentences-resumed":
            _stopped(_spec(name), ready, base / name, recorder, runtime)
        fit(_spec(name), ready, base / name, recorder, runtime)
        (base / f"{name}-{rank}.json").write_text(json.dumps(_figures(recorder)))
    _stopped(_spec("plain"), ready, base / "left", Recorder(), runtime)
    recorder = Recorder()
    fit(NORMS, ready, base / "norms", recorder, runtime)
    torch.set_default_dtype(torch.float32)
    (base / f"norms-{rank}.json").write_text(json.dumps(_samples(recorder)))
    with interrupt.listening(), pytest.raises(KeyboardInterrupt):
        fit(_spec("plain"), ready, base / "interrupted", Asking() if rank == 1 else None, runtime)
    torch.distributed.destroy_process_group()


def _stopped(*arguments) -> None:
    """Trains 7 updates."""
    with patch.object(trainer, "STOP_POLL_EVERY", 7), patch.object(interrupt, "requested", lambda: True), suppress(KeyboardInterrupt):
        fit(*arguments)


class Asking(Recorder):
    """Asks the process that it is in to end, as a signal to one of the workers does."""

    def __call__(self, metrics):
        if not interrupt.requested():
            os.kill(os.getpid(), signal.SIGTERM)


NORMS = changed(model={"dropout": OFF}, batch={"accumulate": 2}, train={"log_gradient_norms": 3, "max_steps": 6})


def _figures(recorder: Recorder) -> dict[str, float]:
    """What training reports, but for its speed and the accuracy, which samples other positions where sentences are shared out."""
    left_out = ("train/accuracy", "train/tokens_per_second")
    told = [(f"{name} {report['step']}", value) for report in recorder.reports for name, value in report.items()]
    return {name: value for name, value in told if name.startswith("train/") and not name.startswith(left_out)}


def _samples(recorder: Recorder) -> list:
    return [sample for report in recorder.reports for sample in report.get(SAMPLES, [])]


@pytest.fixture(scope="module")
def two(prepared, tmp_path_factory) -> Path:
    """Where two workers have trained: a run directory for each of VARIANTS, `norms` and `interrupted`."""
    base = tmp_path_factory.mktemp("two")
    torch.multiprocessing.spawn(_workers, (free_port(), str(base), str(prepared.path.parent)), nprocs=2)
    return base


def _row_worker(rank: int, port: int, task: dict) -> None:
    run_row(Task.of(task), _runtime(rank, port))
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def test_nobody_waits_for_a_training_that_is_done(prepared, tmp_path):
    """A run on two workers that was cut off before it was decoded: the main one decodes, the other has nothing to do."""
    spec = _spec("plain")
    keys = keys_of(spec, manifest(spec.data, None), None)
    task = Task("demo/small/plain", 1, spec, keys, str(tmp_path), cache_dir=str(prepared.path.parent), workers=2)
    run_row(task, Runtime())
    first = view_of(task, ledger_of(task))
    shutil.rmtree(task.run_dir / "score")
    shutil.rmtree(task.run_dir / "decode")
    workers = torch.multiprocessing.spawn(_row_worker, (free_port(), task.to_json()), nprocs=2, join=False)
    done = any(workers.join(timeout=5) for _ in range(9))
    for process in workers.processes:
        process.kill()
    assert done
    again = view_of(task, ledger_of(task))
    assert (again.status, again.bleu) == ("done", first.bleu)
    assert executed_steps(task.run_dir / "journal.jsonl") == spec.train.max_steps


def test_all_workers_save_and_end_where_one_is_asked_to(two):
    saved = Store(two / "interrupted", KEY).latest(lambda path, reason: None, repair=False)
    assert _spec("plain").train.max_steps == 20 and saved is not None and saved.state["progress"]["step"] == STOP_POLL_EVERY
    assert executed_steps(two / "interrupted" / "journal.jsonl") == STOP_POLL_EVERY


@pytest.fixture
def double():
    """In double precision, where a ReLU at its kink and Adam on a gradient near zero do not turn rounding into whole steps."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def test_two_workers_log_the_gradient_of_the_whole_update(two, prepared, tmp_path, double):
    alone = Recorder()
    fit(NORMS, prepared, tmp_path / "alone", alone)
    found = json.loads((two / "norms-0.json").read_text())
    assert [step for step, _ in found] == [3, 6]
    assert [norms for _, norms in found] == [pytest.approx(norms, rel=1e-5) for _, norms in _samples(alone)]
    assert json.loads((two / "norms-1.json").read_text()) == [], "one worker tells it"


@pytest.mark.parametrize("name", VARIANTS)
def test_two_workers_equal_one(two, prepared, tmp_path, name, double):
    alone = Recorder()
    one = fit(_spec(name), prepared, tmp_path / "one", alone)
    assert json.loads((two / f"{name}-0.json").read_text()) == pytest.approx(_figures(alone), rel=1e-6)
    weights = Store(two / name, KEY).weights("last")
    saved = Store(two / name, KEY).latest(lambda path, reason: None, repair=False)
    assert saved is not None and saved.state["progress"]["rate_cuts"] == one.progress.rate_cuts
    assert bool(one.progress.rate_cuts) == (name == "nag-plateau")
    assert set(weights) == set(one.weights)
    # softmax ignores what the key bias adds to a whole row: its gradient is rounding noise, which Adam turns into steps of any sign
    differences = {n: float((weights[n] - w).abs().max()) for n, w in one.weights.items() if not n.endswith("key.bias")}
    assert max(differences.values()) < 1e-8, max(differences, key=differences.get)


def test_one_worker_goes_on_where_two_were_and_the_record_says_from_which_update(two, prepared, tmp_path, double):
    shutil.copytree(two / "left", tmp_path / "left")
    one, rest = (fit(_spec("plain"), prepared, tmp_path / name, Recorder()) for name in ("one", "left"))
    assert "workers" not in one.to_json() and rest.to_json()["workers"] == [[0, 2], [7, 1]]
    assert executed_steps(tmp_path / "left" / "journal.jsonl") == one.progress.step  # no update twice
    assert max(float((rest.weights[n] - w).abs().max()) for n, w in one.weights.items() if not n.endswith("key.bias")) < 1e-8
