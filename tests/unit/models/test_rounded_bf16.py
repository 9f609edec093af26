"""bf16 products in fp32: the numbers of bf16 products to the order of summation, forward and backward, in every variant."""

from collections import Counter
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks.switches import without
from models import precision
from models.loss import label_smoothed_loss
from models.precision import operand
from orchestrator.training.muon import orthogonal
from tests.unit.models.model_cases import PRE, batch, fresh

BF16 = torch.bfloat16


@pytest.fixture(autouse=True)
def no_units(monkeypatch):
    """As on a processor without bf16 units, on any."""
    monkeypatch.setattr(precision, "has_bf16_units", lambda: False)
    library = precision._install() if precision._LIBRARY is None else None
    yield
    if library is not None:
        library._destroy()


class Products(TorchDispatchMode):
    """Counts products that have bf16 operands, and notes what they answer."""

    def __init__(self) -> None:
        super().__init__()
        self.bf16: Counter[str] = Counter()
        self.fp32 = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = function.overloadpacket.__name__
        if any(part in name for part in ("mm", "mv", "linear", "conv", "attention", "dot", "addr")):
            kinds = {a.dtype for a in args if isinstance(a, Tensor)}
            self.bf16[name] += BF16 in kinds
            self.fp32 += torch.float32 in kinds
        return function(*args, **(kwargs or {}))


def ulps(x: Tensor, exact: Tensor) -> Tensor:
    """How many bf16 numbers lie between x and the rounded `exact`."""
    return (x.bfloat16().view(torch.int16).int() - exact.bfloat16().view(torch.int16).int()).abs()


CALLS: dict[str, tuple[Callable[..., Tensor], list[tuple[int, ...]]]] = {
    "linear": (torch.nn.functional.linear, [(3, 7, 64), (40, 64), (40,)]),
    "linear without bias": (torch.nn.functional.linear, [(7, 64), (40, 64)]),
    "matmul": (torch.matmul, [(2, 4, 7, 64), (2, 4, 64, 9)]),
    "bmm": (torch.bmm, [(2, 7, 64), (2, 64, 9)]),
    "addmm": (torch.addmm, [(9,), (7, 64), (64, 9)]),
    "baddbmm": (torch.baddbmm, [(2, 7, 9), (2, 7, 64), (2, 64, 9)]),
    "einsum": (lambda a, b: torch.einsum("kbs,bsd->kbd", a, b), [(3, 2, 64), (2, 64, 5)]),
    "convolution": (torch.nn.functional.conv1d, [(2, 32, 9), (8, 32, 2), (8,)]),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("half", [False, True])
def test_a_product_and_its_gradients_are_those_of_rounded_inputs_rounded_once(name, half):
    """Against fp64; `half`: inputs that are bf16 already."""
    call, shapes = CALLS[name]
    generator = torch.Generator().manual_seed(1)
    given = [torch.randn(shape, generator=generator).to(BF16 if half else torch.float32).requires_grad_() for shape in shapes]
    exact = [x.detach().to(BF16).double().requires_grad_() for x in given]
    with Products() as products, torch.autocast("cpu", BF16):
        y = call(*given)
        grad = torch.randn(y.shape, generator=generator).to(BF16)
        y.backward(grad)
    expected = call(*exact)
    expected.backward(grad.double())
    assert not products.bf16.total() and products.fp32
    assert y.dtype == BF16 and ulps(y, expected).max() <= 1 and (ulps(y, expected) == 0).double().mean() > 0.99
    for x, wanted in zip(given, exact, strict=True):
        assert x.grad is not None and wanted.grad is not None and x.grad.dtype == x.dtype
        assert torch.equal(x.grad, x.grad.to(BF16).to(x.dtype)), "a gradient that autocast would have rounded"
        torch.testing.assert_close(x.grad.double(), wanted.grad, rtol=2**-8, atol=2e-5)


def test_outside_of_autocast_nothing_changes():
    x, w = torch.randn(5, 16), torch.randn(8, 16)
    assert torch.equal(torch.nn.functional.linear(x, w), torch.addmm(torch.zeros(8), x, w.t())) and operand(x, torch.float32) is x
    with without("bf16"), Products() as products, torch.autocast("cpu", BF16):
        torch.nn.functional.linear(x, w)
    assert products.bf16.total(), "the path was taken out"


@pytest.mark.slow
@pytest.mark.parametrize("case", PRE, ids="-".join)
def test_no_product_of_a_variant_is_left_to_bf16(case):
    """Forward, loss and backward; that the numbers are near those of fp32 is tested with every variant."""
    model, (src, tgt) = fresh(case).train(), batch()
    with Products() as products:
        with torch.autocast("cpu", BF16):
            hidden = model(src, tgt).hidden.flatten(0, 1)
            if hidden.shape[-1] == model.output.weight.shape[-1]:
                loss, _ = label_smoothed_loss(hidden, model.output.weight, model.output.bias, tgt.flatten(), 0.1)
            else:
                loss = model.logits(hidden).float().logsumexp(-1).sum()
        loss.backward()
    assert not products.bf16.total(), products.bf16


def test_the_loss_in_chunks_is_that_of_bf16_products():
    generator = torch.Generator().manual_seed(2)
    given = [torch.randn(shape, generator=generator, requires_grad=True) for shape in ((40, 16), (23, 16), (23,))]
    target, found = torch.randint(23, (40,), generator=generator), []
    for off in ((), ("bf16",)):
        with without(*off), torch.autocast("cpu", BF16):
            loss, nll = label_smoothed_loss(*given, target, 0.1)
        found.append((loss.detach(), nll, *torch.autograd.grad(loss, given)))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-2, atol=1e-2)


def test_muon_is_rounded_where_bf16_products_round():
    matrices = torch.randn(2, 24, 40, generator=torch.Generator().manual_seed(1))
    with Products() as products:
        found = orthogonal(matrices)
    with without("bf16"):
        expected = orthogonal(matrices)
    assert not products.bf16.total() and found.dtype == BF16
    torch.testing.assert_close(found.float(), expected.float(), atol=0.03, rtol=0.03)
