import pytest
import torch

from benchmarks.switches import without
from orchestrator.specs.schema import OptimSpec
from orchestrator.training.optim import build_optimizer, optimizer_tensors, set_lr

TORCHS = {
    "adam": lambda parameters: torch.optim.Adam(parameters, lr=0.0, betas=OptimSpec().betas, eps=OptimSpec().eps, fused=True),
    "nag": lambda parameters: torch.optim.SGD(parameters, lr=0.0, momentum=0.99, nesterov=True, fused=True),
}


@pytest.mark.parametrize("kind", TORCHS)
def test_optimisers_are_torchs_to_the_bit(kind):
    """Without torch's wrappers for torch.compile: same updates, same state, no gradient recorded."""
    ours, theirs = (torch.nn.Linear(5, 3) for _ in range(2))
    theirs.load_state_dict(ours.state_dict())
    mine, reference = build_optimizer(ours, OptimSpec(kind=kind)), TORCHS[kind](theirs.parameters())
    for step in range(3):
        for module, each in ((ours, mine), (theirs, reference)):
            set_lr(each, 0.1 / (step + 1))
            module.zero_grad()
            module(torch.arange(10.0).view(2, 5)).square().sum().backward()
            each.step()
    assert torch.equal(ours.weight, theirs.weight) and torch.equal(ours.bias, theirs.bias)
    assert ours.weight.requires_grad and ours.weight.is_leaf
    for key, value in mine.state[ours.weight].items():
        assert torch.equal(value, reference.state[theirs.weight][key])


RATES = (0.25, 0.25, 0.025, 0.025, 0.0025, 0.25)


def fairseq_nag(weights, gradients_of, momentum, rates):
    """fairseq/optim/nag.py, written out: the buffer holds -rate * velocity and is corrected where the rate changes."""
    weights = [w.clone() for w in weights]
    buffers, before = [torch.zeros_like(w) for w in weights], rates[0]
    for rate in rates:
        correction = rate / before
        for w, b, g in zip(weights, buffers, gradients_of(weights), strict=True):
            w += momentum * momentum * correction * b
            w -= (1 + momentum) * rate * g
            b *= momentum * correction
            b -= rate * g
        before = rate
    return weights


@pytest.mark.parametrize("fused", [True, False])
def test_nag_is_fairseqs_through_changes_of_the_rate(fused):
    torch.manual_seed(1)
    module = torch.nn.Linear(5, 3).double()
    x, y = torch.randn(7, 5).double(), torch.randn(7, 3).double()

    def gradients(weights):
        weights = [w.detach().requires_grad_() for w in weights]
        return torch.autograd.grad(torch.nn.functional.linear(x, *weights).sub(y).square().mean(), weights)

    expected = fairseq_nag([p.detach() for p in module.parameters()], gradients, 0.9, RATES)
    with without(*(() if fused else ("fused_optimizer",))):
        ours = build_optimizer(module, OptimSpec(kind="nag", momentum=0.9))
    for rate in RATES:
        set_lr(ours, rate)
        module.zero_grad()
        module(x).sub(y).square().mean().backward()
        ours.step()
    for mine, theirs in zip(module.parameters(), expected, strict=True):
        torch.testing.assert_close(mine.detach(), theirs, rtol=1e-12, atol=1e-14)
        assert float(mine.detach().abs().max()) > 0


def test_a_late_gradient_finds_its_velocity():
    late = torch.nn.Linear(5, 3)
    before, each = late.bias.detach().clone(), build_optimizer(late, OptimSpec(kind="nag"))
    set_lr(each, 0.1)
    late.weight.grad = torch.ones_like(late.weight)
    each.step()
    assert torch.equal(late.bias, before)
    late.bias.grad = torch.ones_like(late.bias)
    each.step()
    torch.testing.assert_close(late.bias.detach(), before - 0.1 * 1.99)


@pytest.mark.parametrize(("kind", "decay"), [("adam", 0.0), ("adam", 0.1), ("nag", 0.0), ("muon", 0.0), ("muon", 0.1)])
def test_modules_may_ask_for_a_rate_of_their_own(kind, decay):
    """Each parameter learns at the factor of the innermost module that asks for one; state goes by name as before."""
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.LayerNorm(3)))
    model[1].rate, model[1][1].rate = 10.0, 0.5
    optimizer = build_optimizer(model, OptimSpec(kind=kind, weight_decay=decay))
    set_lr(optimizer, 0.25)
    found = {id(p): group["lr"] for group in optimizer.param_groups for p in group["params"]}
    assert [found[id(p)] for p in model.parameters()] == [0.25, 0.25, 2.5, 2.5, 0.125, 0.125]
    assert optimizer.param_groups[0]["lr"] == 0.25
    before = [p.detach().clone() for p in model.parameters()]
    model(torch.randn(4, 3, generator=torch.Generator().manual_seed(1))).square().sum().backward()
    optimizer.step()
    moved = [float((p.detach() - b).abs().max()) for p, b in zip(model.parameters(), before, strict=True)]
    assert moved[3] > 5 * moved[1] > 0
    assert len(optimizer_tensors(model, optimizer)) >= 6
