"""What short trainings need: schedules over a known length, moving averages, weight decay, Muon."""

import math

import pytest
import torch

from models.transformer import build
from orchestrator.specs.schema import OptimSpec, Schedule
from orchestrator.training.optim import MovingAverage, build_optimizer, hidden_matrices, learning_rate, set_lr
from tests.unit.training.support import SPEC, Recorder, changed, fit


def rates(schedule: dict, length: int) -> list[float]:
    parsed = Schedule.model_validate(schedule)
    return [learning_rate(parsed, step, 64, length=length) for step in range(1, length + 1)]


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        (
            {"kind": "wsd", "lr": 2.0, "warmup": 2, "cooldown": 0.4, "decay": "linear"},
            [1.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0 * 3 / 4, 2.0 * 2 / 4, 2.0 * 1 / 4],
        ),
        (
            {"kind": "wsd", "lr": 2.0, "warmup_ratio": 0.2, "cooldown": 0.4},
            [1.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, *(2.0 * (1 - math.sqrt(k / 4)) for k in (1, 2, 3))],
        ),
        (
            {"kind": "wsd", "lr": 2.0, "warmup": 2, "cooldown": 0.4, "decay": "linear", "min_lr": 1.0},
            [1.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 1 + 3 / 4, 1 + 2 / 4, 1 + 1 / 4],
        ),
        (
            {"kind": "cosine", "lr": 2.0, "warmup": 2, "min_lr": 0.5},
            [1.0, 2.0, *(0.5 + 1.5 * (1 + math.cos(math.pi * k / 8)) / 2 for k in range(8))],
        ),
        ({"kind": "inverse-sqrt", "lr": 1.0, "warmup_ratio": 0.4}, [0.25, 0.5, 0.75, 1.0, *(math.sqrt(4 / t) for t in range(5, 11))]),
        ({"kind": "noam", "warmup_ratio": 0.4}, [64**-0.5 * min(t**-0.5, t * 4**-1.5) for t in range(1, 11)]),
    ],
)
def test_rates_over_a_known_length(schedule: dict, expected: list[float]) -> None:
    assert rates(schedule, 10) == pytest.approx(expected)


def test_the_average_is_the_recurrence_written_out() -> None:
    model = torch.nn.Linear(1, 1, bias=False)
    model.weight.data.fill_(1.0)
    average, expected = MovingAverage(model, 0.5), 1.0
    for step, value in enumerate([3.0, 5.0, -7.0, 2.0, 11.0, 0.5, 4.0], start=1):
        model.weight.data.fill_(value)
        average.update(step)
        decay = min(0.5, (1 + step) / (10 + step))
        expected = decay * expected + (1 - decay) * value
    assert average.average["weight"].item() == pytest.approx(expected)


def one_step(spec: OptimSpec):
    """A model, its gradients and its parameters after one update at rate 0.01."""
    model = build(SPEC.model.model_dump(), 40, 40)
    with torch.random.fork_rng():
        torch.manual_seed(5)
        for p in model.parameters():
            p.grad = torch.randn_like(p)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    chosen = build_optimizer(model, spec)
    set_lr(chosen, 0.01)
    chosen.step()
    matrices = {id(p) for p in hidden_matrices(model)}
    names = {name for name, p in model.named_parameters() if id(p) in matrices}
    return model, before, dict(model.named_parameters()), names


def test_decay_shrinks_hidden_matrices_alone() -> None:
    _, before, plain, names = one_step(OptimSpec())
    _, _, decayed, _ = one_step(OptimSpec(weight_decay=0.1))
    assert names and "output.weight" not in names and not any("norm" in name or "words" in name for name in names)
    for name, value in plain.items():
        lost = 0.01 * 0.1 * before[name] if name in names else torch.zeros(())
        torch.testing.assert_close(decayed[name], value - lost, atol=1e-6, rtol=0)


def test_muon_takes_the_steps_of_torchs_for_hidden_matrices_and_adams_for_the_rest() -> None:
    model, before, moved, names = one_step(OptimSpec(kind="muon", weight_decay=0.1))
    _, _, adam, _ = one_step(OptimSpec())
    for name in moved.keys() - names:
        torch.testing.assert_close(moved[name], adam[name])
    reference = build(SPEC.model.model_dump(), 40, 40)
    reference.load_state_dict(before)
    parameters = dict(reference.named_parameters())
    for name in names:
        parameters[name].grad = model.get_parameter(name).grad
    matrices = [parameters[name] for name in names]
    torch.optim.Muon(matrices, lr=0.01, momentum=0.95, weight_decay=0.1, adjust_lr_fn="match_rms_adamw").step()
    for name in names:
        torch.testing.assert_close(moved[name] - before[name], parameters[name] - before[name], atol=2e-4, rtol=0.02)


def test_a_cooldown_ends_with_the_training(prepared, tmp_path) -> None:
    """By epochs too, where the length is an estimate."""
    recorder = Recorder()
    spec = changed(
        optim={"schedule": {"kind": "wsd", "lr": 3e-3, "warmup_ratio": 0.2}},
        train={"max_steps": None, "max_epochs": 2},
    )
    fit(spec, prepared, tmp_path / "run", recorder)
    rates = {report["step"]: report["train/lr"] for report in recorder.reports if "train/lr" in report}
    assert rates[max(rates)] < 0.2 * 3e-3
