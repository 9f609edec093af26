"""Relative positions and directional masks against literal transcriptions, and where a cell of the cache must know its time."""

import math

import pytest
import torch

from models.paths import PATHS
from models.site import Flow
from models.transformer import build, causal_bias, padding_bias
from tests.unit.models.model_cases import VOCAB, config


def relative(k=2, positions="none", **changes):
    side = {"num_layers": 2, "self_attention": {"kind": "relative", "k": k}}
    return config("pre", encoder=side, decoder=side, positions=positions, **changes)


def literal(mha, x, seen):
    """One sentence [T, D], key by key. seen(h, i): which keys query i of head h sees. Eq. 3 and 4 where positions are relative."""
    query, key, value = (x @ m.weight.T + m.bias for m in (mha.query, mha.key, mha.value))
    rows = []
    for i in range(len(x)):
        heads = []
        for h in range(mha.num_heads):
            part, js = slice(h * mha.d_head, (h + 1) * mha.d_head), list(seen(h, i))
            k, v = key[js, part], value[js, part]
            if hasattr(mha, "key_offsets"):
                place = [max(-mha.k, min(mha.k, j - i)) + mha.k for j in js]
                k, v = k + mha.key_offsets[h, place], v + mha.value_offsets[h, place]
            e = torch.exp(k @ query[i, part] / math.sqrt(mha.d_head))
            heads.append(e / e.sum() @ v)
        rows.append(torch.cat(heads))
    return torch.stack(rows) @ mha.output.weight.T + mha.output.bias


@pytest.mark.parametrize("k", [1, 2, 16])
@pytest.mark.parametrize("fast", [True, False])
def test_is_the_equation(k, fast, monkeypatch):
    monkeypatch.setattr(PATHS, "attention", fast)
    model = build(relative(k), VOCAB, VOCAB, 1).eval().requires_grad_(False)
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(3, 9, 16, generator=generator)
    lengths = [9, 4, 1]
    mask = torch.arange(9)[None] < torch.tensor(lengths)[:, None]
    encoder, decoder = (stack.layers[1].self_attention.attention for stack in (model.encoder, model.decoder))
    got = encoder(x, x, Flow(mask=mask, bias=padding_bias(mask)))
    for b, length in enumerate(lengths):
        want = literal(encoder, x[b, :length], lambda h, i, length=length: range(length))
        torch.testing.assert_close(got[b, :length], want, atol=1e-5, rtol=1e-4)
    assert torch.isfinite(got).all()
    got = decoder(x, x, Flow(bias=causal_bias(9, x.device), causal=True))
    for b in range(3):
        torch.testing.assert_close(got[b], literal(decoder, x[b], lambda h, i: range(i + 1)), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("causal", [False, True])
def test_gradients_are_those_of_the_equation(causal):
    model = build(relative(3), VOCAB, VOCAB, 1).double()
    mha = model.decoder.layers[0].self_attention.attention
    x = torch.randn(1, 8, 16, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    bias = causal_bias(8, x.device) if causal else None
    parameters = [*mha.parameters()]
    got = torch.autograd.grad(mha(x, x, Flow(bias=bias, causal=causal)).square().sum(), parameters)
    want = torch.autograd.grad(literal(mha, x[0], lambda h, i: range(i + 1 if causal else 8)).square().sum(), parameters)
    for one, other in zip(got, want, strict=True):
        torch.testing.assert_close(one, other, atol=1e-9, rtol=1e-7)
    later = dict(zip((name for name, _ in mha.named_parameters()), got, strict=True))["key_offsets"][:, 4:]
    assert bool(later.any()) is not causal


def test_dropped_weights_are_dropped_from_both_sums(monkeypatch):
    """With values 0, what is left is the sum over a^V: it must miss the keys that were dropped."""
    model = build(relative(2, dropout={"attention": 0.5}), VOCAB, VOCAB, 1).train().requires_grad_(False)
    mha = model.encoder.layers[0].self_attention.attention
    monkeypatch.setattr(mha.dropout, "forward", lambda w: w * (torch.arange(w.shape[-1]) == 3))
    mha.value.weight.zero_()
    mha.value.bias.zero_()
    mha.output.weight.copy_(torch.eye(16))
    mha.value_offsets.fill_(1.0)
    trace = []
    x = torch.randn(1, 6, 16, generator=torch.Generator().manual_seed(3))
    z = mha(x, x, Flow(trace=trace)).unflatten(-1, (2, 8))
    torch.testing.assert_close(z, trace[0][1][:, :, :, 3].transpose(1, 2)[..., None].expand_as(z), atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize(
    ("masks", "layer", "ways"), [("heads", 0, [True, True, False, False]), ("layers", 2, [True] * 4), ("layers", 3, [False] * 4)]
)
def test_directional_masks_are_the_equation(masks, layer, ways, fast, monkeypatch):
    """ways: for each head, whether query i sees the keys up to i, or those from i on."""
    monkeypatch.setattr(PATHS, "attention", fast)
    encoder = {"num_layers": 4, "self_attention": {"kind": "directional", "masks": masks}}
    model = build(config("post", encoder=encoder, num_heads=4), VOCAB, VOCAB, 1).eval().requires_grad_(False)
    mha = model.encoder.layers[layer].self_attention.attention
    x = torch.randn(4, 7, 16, generator=torch.Generator().manual_seed(1))
    lengths = [7, 4, 1, 0]
    mask = torch.arange(7)[None] < torch.tensor(lengths)[:, None]
    got = mha(x, x, Flow(mask=mask, bias=padding_bias(mask)))
    assert torch.isfinite(got).all(), "rows of padding too, and a sentence without words"
    for b, length in enumerate(lengths[:3]):
        want = literal(mha, x[b, :length], lambda h, i, length=length: range(i + 1) if ways[h] else range(i, length))
        torch.testing.assert_close(got[b, :length], want, atol=1e-5, rtol=1e-4)
