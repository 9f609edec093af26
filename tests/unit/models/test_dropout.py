"""Dropout: its masks, its fused forms, and its place in the feed-forward network."""

import math

import pytest
import torch
from torch.nn import functional as F

from models.config import DropoutConfig, ModelConfig
from models.dropout import Dropout, draw_bits, keep_mask
from models.plain import FeedForward
from models.site import Site


def _mask(n, p):
    return keep_mask(draw_bits(torch.empty(n)), p, torch.float32)


@pytest.mark.parametrize("p", [0.1, 0.3, 0.5])
def test_dropout_masks_are_fresh_and_have_the_right_probability(p):
    torch.manual_seed(0)
    n = 1_000_003
    one, two = _mask(n, p), _mask(n, p)
    for mask in (one, two):
        # 5 standard deviations, also for each place within a 64-bit draw
        assert abs(mask.float().mean().item() - (1 - p)) < 5 * math.sqrt(p * (1 - p) / n)
        for place in range(4):
            part = mask[place::4].float()
            assert abs(part.mean().item() - (1 - p)) < 5 * math.sqrt(p * (1 - p) / len(part))
    agreement = (one == two).float().mean().item()
    assert abs(agreement - (p * p + (1 - p) ** 2)) < 0.01
    torch.manual_seed(0)
    assert torch.equal(_mask(n, p), one)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_fused_dropouts_equal_their_parts(dtype):
    """x + drop(y) and drop(max(x, 0)) draw the same masks as drop alone, and pass the same gradients."""
    module, tolerance = Dropout(0.3).train(), 1e-5 if dtype == torch.float32 else 0.02
    g = torch.Generator().manual_seed(1)
    x, y = (torch.randn(7, 33, generator=g).requires_grad_() for _ in range(2))
    for fused, parts in (
        (lambda: module.add(x, y.to(dtype)), lambda: x + module(y.to(dtype)).float()),
        (lambda: module.relu(y.to(dtype)), lambda: module(torch.relu(y.to(dtype)))),
    ):
        results = []
        for function in (fused, parts):
            torch.manual_seed(5)
            x.grad = y.grad = None
            out = function()
            (out.float() * torch.arange(33)).sum().backward()
            results.append((out.float().detach(), x.grad, y.grad))
        for one, two in zip(*results, strict=True):
            assert (one is None) == (two is None)
            if one is not None:
                torch.testing.assert_close(one, two, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_the_feed_forward_network_drops_between_its_maps(activation):
    """W2 drop(act(W1 x + b1)) + b2: with W2 = 1 and b2 = 0 what is kept is act(..) / (1 - p), and its share is 1 - p."""
    ffn = FeedForward(Site("encoder", 1, 1, ModelConfig(d_model=64, d_ff=64, activation=activation, dropout=DropoutConfig(ffn=0.25))))
    torch.manual_seed(1)
    with torch.no_grad():
        ffn.outer.weight.copy_(torch.eye(64))
        ffn.outer.bias.fill_(1.0)
        x = torch.randn(8, 32, 64)
        want = getattr(F, activation)(F.linear(x, ffn.inner.weight, ffn.inner.bias))
        found = ffn.train()(x) - 1.0  # the bias behind the dropout is never dropped
        dropped = (found.abs() < 1e-6) & (want.abs() > 1e-3)
        torch.testing.assert_close(found[~dropped], want[~dropped] / 0.75, atol=1e-2, rtol=1e-4)
        assert dropped.sum() / (want.abs() > 1e-3).sum() == pytest.approx(0.25, abs=0.03)
        torch.testing.assert_close(ffn.eval()(x) - 1.0, want, atol=1e-6, rtol=1e-5)
