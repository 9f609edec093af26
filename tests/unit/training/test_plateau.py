"""A rate that falls with the validations: what is seen, when it is cut, where it ends, and that a kill changes nothing of it."""

import pytest

from orchestrator.analysis.kinds.loss_curves import losses_of, measures
from orchestrator.specs.schema import Schedule
from orchestrator.training import phases
from orchestrator.training.batches import UpdateLoader
from orchestrator.training.state import Progress
from tests.unit.training.support import Recorder, changed, fit

SCHEDULE = {"kind": "plateau", "lr": 0.25, "shrink": 0.1, "min_lr": 1e-4, "cut": "each_rise"}
OPTIM = {"kind": "nag", "betas": [0.9, 0.98], "clip_norm": 0.1, "schedule": SCHEDULE}


@pytest.mark.parametrize(
    ("cut", "seen", "cuts"),
    [
        ("each_rise", [5, 4, 3, 3, 2], [0, 0, 0, 0, 0]),  # an equal loss is no rise
        ("each_rise", [5, 4, 4.5, 4.2, 4.3], [0, 0, 1, 1, 2]),  # against the one before, not the best
        ("after_first_rise", [5, 4, 4.5, 4.2, 4.1], [0, 0, 1, 2, 3]),
    ],
)
def test_when_the_rate_is_cut(cut, seen, cuts):
    schedule, p, found = Schedule(kind="plateau", lr=0.25, cut=cut), Progress(), []
    for epoch, nll in enumerate(seen, 1):
        p.step, p.epoch = 10 * epoch, epoch
        phases.observe(schedule, p, float(nll))
        found.append(p.cuts)
    assert found == cuts
    assert [c["lr"] for c in p.rate_cuts] == [schedule.rate_after(n) for n in range(1, cuts[-1] + 1)]
    assert [c["step"] for c in p.rate_cuts] == [10 * (i + 1) for i in range(len(cuts)) if cuts[i] > (cuts[i - 1] if i else 0)]


def test_the_smallest_rate_is_still_trained_with():
    """0.1 cut three times is 1e-4 but for rounding, which must not end the training; the next cut does."""
    for shrink, lr, cuts in ((0.1, 0.1, 4), (0.1, 0.25, 4), (0.5, 0.0016, 5), (0.1, 0.3, 4)):
        assert Schedule(kind="plateau", lr=lr, shrink=shrink, min_lr=1e-4).cuts_to_end() == cuts
    assert Schedule(kind="plateau", lr=0.1, shrink=1 - 1e-16, min_lr=1e-4).cuts_to_end() > 1e16, "found without counting them"


def test_ends_under_the_smallest_rate_and_says_so(prepared, tmp_path, validations):
    validations([5.0, 4.0, 4.1, 4.2, 4.3, 4.4])
    recorder = Recorder()
    batch = {"unit": "sentences", "size": len(prepared.pairs("train")) // 2}
    spec = changed(optim=OPTIM, batch=batch, train={"validate_every": 2, "max_steps": 40})
    result = fit(spec, prepared, tmp_path / "run", recorder)
    record = result.to_json()
    assert (record["status"], record["ended_by"], record["steps"]) == ("done", "min_lr", 12)
    assert [(c["step"], c["lr"]) for c in record["rate_cuts"]] == [
        (6, pytest.approx(0.025)), (8, pytest.approx(0.0025)), (10, pytest.approx(0.00025)), (12, pytest.approx(0.000025))
    ]  # fmt: skip
    rates = {m["step"]: m["train/lr"] for m in recorder.reports if "train/lr" in m}
    assert list(rates.values()) == pytest.approx([0.25, 0.25, 0.25, 0.025, 0.0025, 0.00025]), "the report tells the update's own rate"
    assert [m["train/rate_cuts"] for m in recorder.reports if "train/rate_cuts" in m][-1] == 3
    assert recorder.reports[-1]["ended_by"] == "min_lr"
    found = {m["measure"]: (m.get("step"), m["value"]) for m in measures(losses_of(recorder.reports, record), None, None)}
    assert found["best_valid_nll"][1] == record["valid"]["best_nll"] == 4.0, "the analysis reads what the training wrote"
    assert found["epochs_to_first_cut"] == (6, record["rate_cuts"][0]["epoch"]) and found["epochs_to_end"] == (12, record["epochs"]) == (
        12,
        6,
    )


def test_what_ends_other_trainings(prepared, tmp_path):
    """Patience: test_updates."""
    assert fit(changed(train={"max_steps": 4}), prepared, tmp_path / "steps").to_json()["ended_by"] == "max_steps"
    assert fit(changed(train={"max_epochs": 1, "max_steps": None}), prepared, tmp_path / "epochs").to_json()["ended_by"] == "max_epochs"


def test_a_restart_begins_with_a_whole_rate_and_no_loss_before_it(prepared, tmp_path, validations):
    validations([5.0, 4.0, 4.1, 9.0, 8.0, 8.5, 8.0, 7.0])
    first = {"kind": "plateau", "lr": 0.25, "min_lr": 1e-3}
    restart = {"after_steps": 6, "schedule": {"kind": "plateau", "lr": 0.1, "shrink": 0.5, "min_lr": 1e-3}}
    spec = changed(optim=OPTIM | {"schedule": first, "restart": restart}, train={"validate_every": 2, "max_steps": 16})
    recorder = Recorder()
    result = fit(spec, prepared, tmp_path / "run", recorder)
    assert result.progress.rate_cuts == [
        {"step": 6, "epoch": result.progress.rate_cuts[0]["epoch"], "lr": pytest.approx(0.025)},
        {"step": 12, "epoch": result.progress.rate_cuts[1]["epoch"], "lr": pytest.approx(0.05)},
    ]
    rates = {m["step"]: m["train/lr"] for m in recorder.reports if "train/lr" in m}
    assert rates[8] == rates[12] == 0.1 and rates[14] == pytest.approx(0.05)


@pytest.mark.slow
@pytest.mark.parametrize("accumulate", [1, 3])
def test_validation_and_checkpoints_at_the_end_of_each_epoch(prepared, tmp_path, accumulate):
    spec = changed(
        train={"max_steps": None, "max_epochs": 3, "validate_every": "epoch", "checkpoint_every": "epoch", "snapshot_every": "epoch"},
        batch={"accumulate": accumulate},
    )
    recorder = Recorder()
    result = fit(spec, prepared, tmp_path / "run", recorder)
    ends = []
    for step, update in enumerate(UpdateLoader(prepared.pairs("train"), spec.batch, spec.seed, 0, 1).updates(0, 0), 1):
        if update.index == 0:
            ends.append(step)
        if update.epoch == 3:
            break
    assert list(recorder.nll()) == ends and result.progress.step == ends[-1] and len(ends) == 3
    kept = lambda name: sorted(int(p.name[5:13]) for p in (tmp_path / "run" / name).glob("step-*"))  # noqa: E731
    assert sorted(set(kept("ckpt"))) == ends[1:] and sorted(set(kept("snapshots"))) == ends[1:]
