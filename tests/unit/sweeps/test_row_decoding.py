"""Which weights a row is decoded from, which weights it starts from, and what an idle worker adds."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from models.transformer import build
from orchestrator.ledger.keys import Keys
from orchestrator.ledger.run_files import Store
from orchestrator.sweeps import row
from orchestrator.training.batches import UpdateLoader
from orchestrator.training.runtime import Runtime
from orchestrator.training.trainer import Trainer
from tests.unit.training.support import KEY, OFF, SPEC, changed

SIZES = SimpleNamespace(src_size=30, tgt_size=30)


def test_a_row_is_decoded_from_the_weights_that_it_names(tmp_path):
    """last, best, or the mean of the snapshots, which are others than both."""
    store = Store(tmp_path, KEY)
    shapes = {name: p.shape for name, p in build(SPEC.model.model_dump(), 30, 30, 1).named_parameters()}

    def filled(value):
        return {name: torch.full(shape, value) for name, shape in shapes.items()}

    store.save_weights("last", filled(7.0), 1)
    store.save_weights("best", filled(2.0), 1)
    for step, value in ((1, 50.0), (2, 1.0), (3, 3.0), (4, 5.5)):
        store.save_snapshot(step, filled(value), 3)
    for choice, value in (("last", 7.0), ("best", 2.0), ("average", (1.0 + 3.0 + 5.5) / 3)):
        model = row.load_model(changed(decode={"checkpoint": choice}), SIZES, store, torch.device("cpu"))
        assert all(float(p.detach().flatten()[0]) == pytest.approx(value) for p in model.parameters()), choice
        assert not model.training


def test_a_warm_start_trains_from_the_weights_that_its_row_decodes_from(tmp_path, monkeypatch):
    """A row that is decoded from its best weights starts from its parent's best."""
    seen = {}

    class Halted(Exception):
        pass

    def training(*_, init_weights, **options):
        seen.update(init_weights)
        raise Halted

    monkeypatch.setattr(row, "Trainer", training)
    parent = Store(tmp_path / ("cd" * 8), "cd" * 32)
    for name, value in (("last", 1.0), ("best", 2.0)):
        parent.save_weights(name, {"w": torch.full((2,), value)}, 1)
    spec = changed(decode={"checkpoint": "best"}).model_copy(update={"init_from": "a/b/parent"})
    task = SimpleNamespace(spec=spec, parent_key="cd" * 32, results=str(tmp_path), id="a", seed=1)
    task.keys, task.train_key, task.rung_bleu, task.rungs, task.run_dir = Keys(KEY, None, None), KEY, False, [], tmp_path / KEY[:16]
    with pytest.raises(Halted):
        list(row._train(task, Runtime(), SIZES, SimpleNamespace(write_spec=lambda *_: None, read_train=lambda *_: None), None, []))
    assert torch.equal(seen["w"], torch.full((2,), 2.0))


def test_a_worker_without_a_share_of_a_batch_adds_nothing(prepared, tmp_path):
    """It holds one sentence all the same; neither its gradients nor what it logs are of it."""
    spec = changed(model={"dropout": OFF}, batch={"accumulate": 2})
    found = []
    for idle in ([False, False], [False, True], None):
        training = Trainer(spec, Runtime(), [], prepared, Store(tmp_path, KEY))
        update = next(iter(UpdateLoader(prepared.pairs("train"), spec.batch, 1).updates(0, 0)))
        one = {"micro_batches": update.micro_batches[:1], "idle": [False]}
        update = replace(update, **one if idle is None else {"idle": idle})
        sums = training.forward_backward(update)
        found.append(({name: float(value) for name, value in sums.items()}, [p.grad.clone() for p in training.model.parameters()]))
    both, idle, alone = found
    assert idle[0] == pytest.approx(alone[0]) and both[0]["nll"] > 1.5 * alone[0]["nll"]
    for one, two in zip(idle[1], alone[1], strict=True):
        torch.testing.assert_close(one, two)
