from __future__ import annotations

import pytest
import torch

from orchestrator.optim import adam, learning_rate, load_optimizer, optimizer_tensors, set_rate
from orchestrator.spec import OptimSpec, Schedule


def test_noam_is_vaswani_eq_3():
    schedule = Schedule(kind="noam", warmup=4000)
    for t in (1, 100, 4000, 100_000):
        assert learning_rate(schedule, t, 512) == pytest.approx(512**-0.5 * min(t**-0.5, t * 4000**-1.5))
    assert max(range(1, 20_000, 100), key=lambda t: learning_rate(schedule, t, 512)) in range(3900, 4100)


def test_inverse_sqrt_peaks_at_lr_and_halves_at_four_times_the_warmup():
    schedule = Schedule(kind="inverse-sqrt", lr=2e-3, warmup=500)
    assert learning_rate(schedule, 250, 512) == pytest.approx(1e-3)
    assert learning_rate(schedule, 500, 512) == pytest.approx(2e-3)
    assert learning_rate(schedule, 2000, 512) == pytest.approx(1e-3)


def test_fixed():
    assert learning_rate(Schedule(kind="fixed", lr=5e-5, warmup=0), 77, 256) == 5e-5


def test_optimizer_state_round_trip_gives_the_same_next_update():
    def model():
        torch.manual_seed(0)
        return torch.nn.Linear(3, 3)

    def update(m, o, seed):
        torch.manual_seed(seed)
        o.zero_grad()
        m(torch.randn(4, 3)).square().sum().backward()
        set_rate(o, 1e-2)
        o.step()

    one = model()
    first = adam(one, OptimSpec())
    update(one, first, 1)
    two = model()
    two.load_state_dict(one.state_dict())
    second = adam(two, OptimSpec())
    load_optimizer(two, second, optimizer_tensors(one, first))
    update(one, first, 2)
    update(two, second, 2)
    assert torch.equal(one.weight, two.weight)
    assert torch.equal(one.bias, two.bias)


def test_adam_is_torchs_to_the_bit() -> None:
    """Without its wrappers for torch.compile: same updates, same state, no gradient recorded."""
    ours, theirs = (torch.nn.Linear(5, 3) for _ in range(2))
    theirs.load_state_dict(ours.state_dict())
    mine = adam(ours, OptimSpec())
    reference = torch.optim.Adam(theirs.parameters(), lr=0.0, betas=OptimSpec().betas, eps=OptimSpec().eps, fused=True)
    for step in range(3):
        for module, optimizer in ((ours, mine), (theirs, reference)):
            set_rate(optimizer, 0.1 / (step + 1))
            optimizer.zero_grad(set_to_none=True)
            module(torch.arange(10.0).view(2, 5)).square().sum().backward()
            optimizer.step()
    assert torch.equal(ours.weight, theirs.weight) and ours.weight.requires_grad and ours.weight.is_leaf
    reference.load_state_dict(mine.state_dict())
    assert torch.equal(mine.state[ours.weight]["exp_avg_sq"], reference.state[theirs.weight]["exp_avg_sq"])
