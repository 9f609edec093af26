"""A training that ends after any update and resumes is the uninterrupted one: weights, counters, history."""

import tempfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from orchestrator import interrupt
from orchestrator.data.store import Pairs
from orchestrator.faults import InjectedFault
from orchestrator.ledger.run_files import Store
from orchestrator.training import trainer
from orchestrator.training.metrics import history_lines
from orchestrator.training.state import TrainResult
from tests.unit.training.support import KEY, Recorder, changed, fit

EVERY = st.integers(1, 4) | st.just("epoch")
WSD = {"kind": "wsd", "lr": 3e-2, "warmup": 1, "cooldown": 0.5}
PLATEAU = {"kind": "plateau", "lr": 1.0, "shrink": 0.5, "min_lr": 0.2}
SCHEDULES = st.sampled_from(
    [WSD, {"kind": "cosine", "lr": 3e-2, "warmup_ratio": 0.3}, {"kind": "noam", "factor": 1.0, "warmup": 3}, PLATEAU]
)
BATCHES = st.fixed_dictionaries(
    {
        "unit": st.just("sentences"),
        "size": st.integers(3, 6),
        "accumulate": st.integers(1, 2),
    }
)
RESTARTS = st.none() | st.builds(
    lambda after, schedule, batch: after | {"schedule": schedule, "batch": batch},
    st.sampled_from([{"after_steps": n} for n in (1, 3, 4, 6)] + [{"after_epochs": n} for n in (1, 2)]),
    SCHEDULES,
    st.none() | BATCHES,
)
OPTIMS = st.fixed_dictionaries(
    {"kind": st.sampled_from(["adam", "nag", "muon"]), "ema": st.sampled_from([None, 0.5]), "schedule": SCHEDULES, "restart": RESTARTS}
)
TRAINS = st.fixed_dictionaries(
    {
        "max_steps": st.integers(6, 10), "max_epochs": st.sampled_from([None, 1, 2, 3]), "validate_every": EVERY, "checkpoint_every": EVERY,
        "snapshots": st.integers(0, 2), "snapshot_every": st.none() | EVERY, "patience": st.sampled_from([None, 1, 3]),
        "log_gradient_norms": st.integers(0, 2),
    }
)  # fmt: skip
TINY = {"num_layers": 1}
ADAM = {"kind": "adam", "ema": None, "schedule": WSD}
TRAIN = {"max_steps": 10, "validate_every": 4, "checkpoint_every": 4}
SIX = {"unit": "sentences", "size": 6, "accumulate": 1}


def pairs(src, tgt) -> Pairs:
    sides = [(np.arange(side.sum()) % 9 + 4, np.cumsum([0, *side])) for side in (src, tgt)]
    return Pairs(*sides[0], *sides[1])


LENGTHS = np.random.default_rng(1).integers(1, 6, (4, 24))
SPLITS = {"train": pairs(*LENGTHS[:2]), "valid": pairs(*LENGTHS[2:, :5])}
CORPUS = SimpleNamespace(src_size=14, tgt_size=14, pairs=SPLITS.__getitem__)


def attempts(point: str, steps: int):
    """Contexts of the attempts of one training: each ends at a later update or checkpoint, the last one at none."""
    for step in range(1, steps + 1):
        if point == "stop":
            yield patch.object(interrupt, "requested", lambda: True)
        else:
            yield patch.dict("os.environ", {"NMT_FAULT": f"{point}@{step}:raise" if point == "step" else f"{point}:raise"})
    yield patch.dict("os.environ")


def told(recorder: Recorder) -> dict[tuple[int, str], Any]:
    """Figures of all reports by (step, metric); one that is reported again must be the same."""
    found: dict[tuple[int, str], Any] = {}
    for line in (line for report in recorder.reports for line in history_lines(report)):
        for name, value in line.items():
            if name not in ("step", "total_steps", "train/tokens_per_second"):
                assert found.setdefault((line["step"], name), value) == value, (line["step"], name)
    return found


def same(one: dict[str, torch.Tensor], two: dict[str, torch.Tensor]) -> bool:
    return one.keys() == two.keys() and all(torch.equal(one[name], two[name]) for name in one)


CASES = given(optim=OPTIMS, batch=BATCHES, train=TRAINS, rungs=st.sets(st.integers(1, 9), max_size=2))
FAST = settings(max_examples=3, deadline=None, derandomize=True, phases=[Phase.explicit, Phase.generate])


@pytest.mark.parametrize("point", ["ckpt_post_rename", *(pytest.param(at, marks=pytest.mark.slow) for at in ("stop", "step"))])
@FAST
@CASES
@example(ADAM | {"restart": {"after_steps": 8, "schedule": WSD}}, SIX, TRAIN, set())
@example(ADAM | {"kind": "nag", "schedule": PLATEAU, "restart": None}, SIX, TRAIN | {"validate_every": 1}, set())
@example(ADAM | {"restart": {"after_epochs": 1, "schedule": WSD}}, SIX, TRAIN | {"max_epochs": 2}, set())
def test_a_training_resumed_after_every_update_is_the_uninterrupted_one(point, optim, batch, train, rungs):
    check(point, optim, batch, train, rungs)


@pytest.mark.slow
@pytest.mark.timeout(400)
@settings(FAST, max_examples=12)
@CASES
@pytest.mark.parametrize("point", ["stop", "step", "ckpt_post_rename", "ckpt_post_delete"])
def test_many_trainings_resumed_after_every_update(point, optim, batch, train, rungs):
    check(point, optim, batch, train, rungs)


def check(point, optim, batch, train, rungs):
    spec = changed(model={"d_model": 8, "d_ff": 8, "encoder": TINY, "decoder": TINY}, optim=optim, batch=batch, train=train)
    whole, parts = Recorder(), Recorder()
    with tempfile.TemporaryDirectory() as folder, patch.object(trainer, "LOG_EVERY", 3), patch("os.fsync"):
        one, two = Path(folder) / "one", Path(folder) / "two"
        expected: TrainResult = fit(spec, CORPUS, one, whole, rungs=rungs)
        for attempt in attempts(point, expected.progress.step):
            with attempt, suppress(InjectedFault, KeyboardInterrupt):
                found: TrainResult = fit(spec, CORPUS, two, parts, rungs=rungs)
        assert replace(found.progress, seconds=0) == replace(expected.progress, seconds=0)
        assert (found.status, found.ended_by) == (expected.status, expected.ended_by)
        assert same(found.weights, expected.weights)
        for choice in ["last", "best"] + ["ema"] * (optim["ema"] is not None):
            assert same(Store(one, KEY).weights(choice), Store(two, KEY).weights(choice)), choice
        assert [path.name for path in Store(one, KEY).snapshots()] == [path.name for path in Store(two, KEY).snapshots()]
    assert told(parts) == told(whole)
