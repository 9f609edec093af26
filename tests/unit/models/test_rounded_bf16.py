"""bf16 products in fp32: the numbers of bf16 products to the order of summation, in the loss and in Muon."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from models import precision
from models.loss import label_smoothed_loss
from models.paths import PATHS
from orchestrator.training.muon import orthogonal

BF16 = torch.bfloat16


@pytest.fixture(autouse=True)
def no_units(monkeypatch):
    """As on a processor without bf16 units, on any."""
    monkeypatch.setattr(precision, "has_bf16_units", lambda: False)


class Products(TorchDispatchMode):
    """Counts products that have bf16 operands."""

    def __init__(self) -> None:
        super().__init__()
        self.bf16 = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if "mm" in function.overloadpacket.__name__:
            self.bf16 += BF16 in {a.dtype for a in args if isinstance(a, Tensor)}
        return function(*args, **(kwargs or {}))


def test_the_loss_in_chunks_is_that_of_bf16_products():
    generator = torch.Generator().manual_seed(2)
    given = [torch.randn(shape, generator=generator, requires_grad=True) for shape in ((40, 16), (23, 16), (23,))]
    target, found = torch.randint(23, (40,), generator=generator), []
    for off in ((), ("bf16",)):
        with PATHS.without(*off), torch.autocast("cpu", BF16):
            loss, nll = label_smoothed_loss(*given, target, 0.1)
        found.append((loss.detach(), nll, *torch.autograd.grad(loss, given)))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-2, atol=1e-2)


def test_muon_is_rounded_where_bf16_products_round():
    matrices = torch.randn(2, 24, 40, generator=torch.Generator().manual_seed(1))
    with Products() as products:
        found = orthogonal(matrices)
    with PATHS.without("bf16"):
        expected = orthogonal(matrices)
    assert not products.bf16 and found.dtype == BF16
    torch.testing.assert_close(found.float(), expected.float(), atol=0.03, rtol=0.03)
