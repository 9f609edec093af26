"""Settings of a model against what they mean, in small: heads, activations, tying, the constant of transparent attention, bf16 maps."""

from __future__ import annotations

import math

import pytest
import torch

from models import build
from models.inference import prepared
from tests.unit.models.model_cases import VOCAB, batch, config


@pytest.mark.parametrize("heads", [1, 2, 4])
def test_attention_has_the_models_heads(heads):
    """softmax(q k^T / sqrt(d / heads)) v in each slice of d / heads numbers (Vaswani et al. 2017, section 3.2.2)."""
    model = build(config("post", num_heads=heads, d_model=16), VOCAB, VOCAB, 1).eval().requires_grad_(False)
    src, tgt = batch()
    trace: list = []
    model.encode(src, trace)
    attention, weights = trace[0]
    x, width = model(src, tgt).encoder.inputs[1][1], 16 // heads
    q, k = (x @ m.weight.T + m.bias for m in (attention.query, attention.key))
    assert weights.shape[1] == heads
    for h in range(heads):
        part = slice(h * width, (h + 1) * width)
        torch.testing.assert_close(weights[1, h], (q[:, part] @ k[:, part].T / math.sqrt(width)).softmax(-1), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(
    ("activation", "by_hand"), [("relu", lambda x: max(x, 0.0)), ("gelu", lambda x: x * (1 + math.erf(x / 2**0.5)) / 2)]
)
def test_the_feed_forward_network_has_the_models_activation(activation, by_hand):
    model = build(config("post", activation=activation), VOCAB, VOCAB, 1).eval().requires_grad_(False)
    network = model.encoder.layers[0].feed_forward
    x = torch.linspace(-2, 2, 16)
    inner = torch.tensor([by_hand(float(z)) for z in network.inner.weight @ x + network.inner.bias])
    torch.testing.assert_close(network(x), network.outer.weight @ inner + network.outer.bias, atol=1e-5, rtol=1e-4)


def test_embeddings_are_one_matrix_where_they_are_tied():
    for tying, pairs in (("separate", 0), ("tied-output", 1), ("three-way", 2)):
        model = build(config("pre", embeddings=tying), VOCAB, VOCAB, 1)
        source, target, output = model.src_embedding.words.weight, model.tgt_embedding.words.weight, model.output.weight
        assert (target is output, source is target) == (pairs > 0, pairs > 1), tying


def test_transparent_attention_drops_scalars_about_their_constant():
    """Weights are softmax(drop(0 + 1/5)): with dropout 0.5 each logit is 0 or 0.4, so that kept and dropped states differ by e^0.4."""
    off = dict.fromkeys(("embedding", "residual", "attention", "ffn"), 0.0)
    model = build(config("post", bridge={"kind": "transparent", "dropout": 0.5}, dropout=off), VOCAB, VOCAB, 1).train()
    src, tgt = (ids[1:2] for ids in batch())
    found = set()
    with torch.no_grad():
        history = model(src, tgt).encoder
        states = torch.stack([h.flatten() for h in history.outputs], dim=1)
        for seed in range(4):
            torch.manual_seed(seed)
            for memory in (m for (m,) in model.encode(src).memories):
                weights = torch.linalg.lstsq(states.double(), memory.keys.flatten().double()[:, None]).solution[:, 0]
                found |= {round(float(w), 2) for w in (weights / weights.min()).log()}
    assert found <= {0.0, -0.0, 0.4} and 0.4 in found


def test_bf16_maps_are_products_of_rounded_numbers_with_their_biases():
    g = torch.Generator().manual_seed(1)
    linear, x = torch.nn.Linear(16, 8), torch.randn(5, 16, generator=g)
    with torch.no_grad():
        linear.bias.copy_(torch.linspace(-4, 4, 8))
        want = x.bfloat16().float() @ linear.weight.bfloat16().float().T + linear.bias
        with prepared(linear, "bf16"):
            torch.testing.assert_close(linear(x), want, atol=2e-2, rtol=1e-2)
