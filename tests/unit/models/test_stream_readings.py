"""Other readings of residuals of several streams, each against its equation and its start."""

import math

import pytest
import torch

from models.transformer import build
from tests.unit.models.model_cases import VOCAB, batch, config, off_start
from tests.unit.models.residual_cases import hidden, model_of, streams, sublayer, x_and_y


def test_static_mhc_reads_and_writes_by_softmax():
    options = {"dynamic": False, "start": "identity", "weights": "softmax", "temperature": 0.05}
    one, (_, y) = sublayer(kind="manifold_hyper", place=2, **options), x_and_y()
    r, s = one.residual, streams(4)
    assert r.bias.tolist() == [-8, 0, -8, -8, 0, 0, 0, 0, *(0 if i % 5 == 0 else -8 for i in range(16))]
    r.bias[:8] = torch.tensor([0.5, -1, 0, 2, 1, 0, -1, 0.25])
    seen: list[torch.Tensor] = []
    got = one(s, lambda q: seen.append(q) or y)
    p, q = (torch.exp(l) / torch.exp(l).sum() for l in (r.bias[:4], r.bias[4:8]))
    torch.testing.assert_close(seen[0], one.norm(torch.einsum("a,btad->btd", p, s)), atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(got, s + q[:, None] * y[..., None, :], atol=1e-4, rtol=1e-4)  # R is the identity


@pytest.mark.parametrize(("kind", "dynamic"), [("hyper", True), ("hyper", False), ("manifold_hyper", True), ("manifold_hyper", False)])
def test_an_output_may_be_a_learned_sum_of_streams(kind, dynamic):
    stack = model_of("pre", 2, kind=kind, streams=3, dynamic=dynamic, reduce="learned").encoder.residual
    one, s = off_start(stack), torch.randn(2, 3, 3, 16, generator=torch.Generator().manual_seed(3))
    got = one.end(s)
    for b in range(2):
        for t in range(3):
            if kind == "manifold_hyper":
                v = s[b, t].flatten()
                raw = one.scale * ((v / (v.square().mean() + 1e-6).sqrt()) @ one.phi) if dynamic else 0.0
                shares = 1 / (1 + (-(raw + one.bias)).exp())
            else:
                normed = [(h - h.mean()) / (h.var(unbiased=False) + 1e-6).sqrt() for h in s[b, t]]
                raw = torch.stack([one.scale[0] * torch.tanh(h @ one.weight[:, 0]) for h in normed]) if dynamic else 0.0
                shares = raw + one.static[:, 0]
            torch.testing.assert_close(got[b, t], shares @ s[b, t], atol=1e-5, rtol=1e-4)


def test_manifold_streams_have_one_map_for_all():
    one, (_, y) = off_start(sublayer(kind="manifold_streams", streams=3)), x_and_y()
    s, r, seen = streams(), one.residual, []
    got = one(s, lambda q: seen.append(q) or y)
    for b in range(2):
        for t in range(3):
            raw = torch.stack([h / (h.square().mean() + 1e-6).sqrt() * r.gain @ r.weight for h in s[b, t]])
            m = 1 / (1 + (-(r.scale[0] * raw[:, 0] + r.static[:, 0])).exp())
            matrix = (r.scale[1] * raw[:, 1:-1] + r.static[:, 1:-1]).exp()
            for _ in range(20):
                matrix = matrix / matrix.sum(0)
                matrix = matrix / matrix.sum(1)[:, None]
            w = r.scale[2] * 2 / (1 + (-raw[:, -1]).exp()) + r.static[:, -1]
            torch.testing.assert_close(seen[0][b, t], one.norm(m @ s[b, t]), atol=1e-5, rtol=1e-4)
            torch.testing.assert_close(got[b, t], matrix.T @ s[b, t] + w[:, None] * y[b, t], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("norms", ["printed", "code"])
def test_mudds_norms_stand_before_and_behind_the_sums(norms):
    r, (x_0, x_1) = off_start(sublayer(kind="mudd", layer=2, norms=norms, dynamic=False)).residual, x_and_y()

    def normed(x, gain):
        return x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt() * gain

    for c, got in enumerate(r.mix((x_0, x_1))):
        mixed = r.static[c, 0] * normed(x_0, r.pre_gain[0]) + r.static[c, 1] * normed(x_1, r.pre_gain[1])
        inner = norms == "code" and c < 3
        torch.testing.assert_close(got, x_1 + (mixed if inner else normed(mixed, r.post_gain)), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_mudd_between_encoder_and_decoder(norm):
    model = build(config(norm, bridge={"kind": "mudd"}), VOCAB, VOCAB, 1).eval().requires_grad_(False)
    plain = build(config(norm), VOCAB, VOCAB, 1).eval().requires_grad_(False)
    torch.testing.assert_close(hidden(model), hidden(plain), atol=2e-6, rtol=1e-5)
    off_start(model)
    history, bridge = model(*batch()).encoder, model.bridge
    memories = model.encode(batch()[0]).memories
    states = torch.stack(history.outputs, -2)
    for b, t in ((1, 0), (2, 5)):
        h = states[b, t, -1] / (states[b, t, -1].square().mean() + 1e-6).sqrt()
        inner = torch.tensor([float(z) * (1 + math.erf(float(z) / 2**0.5)) / 2 for z in h @ bridge.inner])
        weights = bridge.static + (inner @ bridge.outer).view(4, 2, 5)
        for m, (memory,) in enumerate(memories):
            for way, own, got in ((0, bridge.key_norm, memory.keys), (1, bridge.value_norm, memory.values)):
                torch.testing.assert_close(got[b, t], own(weights[m, way] @ states[b, t]), atol=1e-5, rtol=1e-4)


def test_each_decoder_layer_attends_to_its_own_mixture_of_sources():
    sides = {"encoder": {"num_layers": 4, "residual": {"kind": "depth_attention"}}}
    model = build(config("pre", bridge={"kind": "depth_attention"}, **sides), VOCAB, VOCAB, 1).eval().requires_grad_(False)
    torch.testing.assert_close(hidden(model), hidden(build(config("pre", **sides), VOCAB, VOCAB, 1).eval()), atol=2e-5, rtol=1e-4)
    off_start(model)
    history, bridge = model(*batch()).encoder, model.bridge
    memories = model.encode(batch()[0]).memories
    for m, (memory,) in enumerate(memories):
        for b, t in ((1, 0), (2, 5)):
            v = [source[b, t] for source in history.outputs[-1].sources]
            scores = [float(bridge.query[m] @ (bridge.gain[m] * h / (h.square().mean() + 1e-6).sqrt())) for h in v]
            shares = [math.exp(z) / sum(map(math.exp, scores)) for z in scores]
            mixed = sum(a * h for a, h in zip(shares, v, strict=True))
            torch.testing.assert_close(memory.keys[b, t], bridge.norm(mixed), atol=1e-5, rtol=1e-4)
