"""Rules of the models' building blocks, each against its definition written out by hand."""

import math
import re

import pytest
import torch

from models.dropout import Dropout
from models.loss import gradient_rows, label_smoothed_loss
from models.transformer import build
from tests.unit.models.model_cases import COMPONENTS, VOCAB, batch, config, variant

PLACES = {"embedding": 0.11, "residual": 0.22, "attention": 0.33, "ffn": 0.44}
WHERE = (
    (r"(src|tgt)_embedding|extra_encoder|bridge", "embedding"),  # the words, wherever something is built of them anew
    (r".*(attention|deeper\.\d)", "attention"),
    (r".*(sublayer|convolution|network|summaries\.\d)|decoder\.connection", "residual"),
    (r".*feed_forward", "ffn"),
)
"""A module that has a dropout -> the place of the model's section `dropout`; others have an option of their own, 0 by default."""


@pytest.mark.parametrize("with_bias", [True, False])
@pytest.mark.parametrize("fused", [None, gradient_rows])
@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.3])
def test_the_smoothed_loss_is_its_definition(fused, smoothing, with_bias, monkeypatch):
    """-sum_v q_v log p_v, q = 1 - smoothing at the target and smoothing / (V - 1) at every other word; padding counts for nothing."""
    monkeypatch.setattr("models.loss.CHUNK", 3)
    g = torch.Generator().manual_seed(1)
    leaves = [torch.randn(shape, generator=g, dtype=torch.float64).requires_grad_() for shape in ((8, 4), (5, 4), (5,))]
    leaves = leaves[: 3 if with_bias else 2]
    hidden, weight, bias = (*leaves, None)[:3]
    target, real = torch.tensor([0, 1, 2, 3, 4, 0, 1, 2]), [1, 1, 0, 1, 1, 1, 0, 1]
    want, want_nll = torch.zeros((), dtype=torch.float64), 0.0
    for i in range(8):
        z = weight @ hidden[i] + (0.0 if bias is None else bias)
        log_p = z - z.exp().sum().log()
        for v in range(5):
            q = 1.0 - smoothing if v == target[i] else smoothing / 4
            want = want - real[i] * q * log_p[v]
        want_nll -= real[i] * float(log_p[target[i]].detach())
    loss, nll = label_smoothed_loss(hidden, weight, bias, target, smoothing, torch.tensor(real, dtype=torch.float64), fused)
    error = {} if fused is None else {"atol": 1e-5, "rtol": 1e-5}  # which computes in fp32
    torch.testing.assert_close(loss, want, **error)
    assert float(nll) == pytest.approx(want_nll)
    torch.testing.assert_close(torch.autograd.grad(loss, leaves), torch.autograd.grad(want, leaves), **error)


@pytest.mark.slow
def test_every_dropout_has_the_rate_of_its_place():
    for kind, name in COMPONENTS:
        with torch.device("meta"):
            model = build(variant(kind, name, "pre") | {"dropout": PLACES}, VOCAB, VOCAB)
        own = {"bridge": 0.0 if name.endswith("=0.0") else 0.1} if name.startswith("transparent") else {}
        for path, module in model.named_modules():
            if isinstance(module, Dropout):
                owner = path.removesuffix(".dropout")
                place = next((place for pattern, place in WHERE if re.fullmatch(pattern, owner)), None)
                assert module.p == own.get(owner, 0.0 if place is None else PLACES[place]), f"{kind} {name}: {path}"


@pytest.mark.parametrize("words", [True, False])
def test_the_average_of_mlrf_is_over_the_states_that_it_reads(words):
    """The norm hides the divisor where its eps is small."""
    parts = {side: {"num_layers": 4, "aggregation": {"kind": "mlrf-avg", "word_embedding": words}} for side in ("encoder", "decoder")}
    model = build(config("post", **parts) | {"norm_eps": 0.5}, VOCAB, VOCAB, 1).eval().requires_grad_(False)
    output = model(*batch())
    read = output.decoder.outputs[0 if words else 1 :]
    assert len(read) == (5 if words else 4)
    mean = sum(read) / len(read)
    centred = mean - mean.mean(-1, keepdim=True)
    torch.testing.assert_close(output.hidden, centred / torch.sqrt((centred**2).mean(-1, keepdim=True) + 0.5), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("word_dim", [None, 10])
def test_a_position_is_the_words_scaled_by_the_model_plus_sines(word_dim):
    """h_0 = P E[w] sqrt(d) + b + position (Vaswani et al. 2017, section 3.4 and 3.5; sines first, as tensor2tensor has them)."""
    model = build(config("pre", word_dim=word_dim, output_dim=word_dim), VOCAB, VOCAB, 1).eval().requires_grad_(False)
    src, tgt = batch()
    embedding = model.src_embedding
    embedding.bias.copy_(torch.linspace(-1, 1, 16))
    if word_dim is not None:
        embedding.project.bias.copy_(torch.linspace(-2, 1, 16))
    h_0 = model(src, tgt).encoder.outputs[0]
    for t in range(4):
        word = embedding.words.weight[src[1, t]]
        if word_dim is not None:
            word = embedding.project.weight @ word + embedding.project.bias
        rates = [10000.0 ** (-i / 7) for i in range(8)]
        place = torch.tensor([math.sin(t * r) for r in rates] + [math.cos(t * r) for r in rates])
        torch.testing.assert_close(h_0[1, t], word * 4.0 + embedding.bias + place, atol=1e-5, rtol=1e-5)
