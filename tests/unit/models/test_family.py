"""Methods of 2025 and 2026 for residuals and attention: each against its equation, written with loops, and its start."""

import math

import pytest
import torch

from models.plain import SubLayer
from models.residuals.depth_attention import State
from models.site import Flow
from models.transformer import build
from tests.unit.models.model_cases import NO_DROPOUT, VOCAB, batch, config, off_start
from tests.unit.models.residual_cases import model_of, streams, sublayer, x_and_y
from tests.unit.models.test_shared_values import attended


def close(got: torch.Tensor, want: torch.Tensor) -> None:
    torch.testing.assert_close(got, want, atol=1e-5, rtol=1e-4)


def rms(h: torch.Tensor) -> torch.Tensor:
    return h / (h.square().mean() + 1e-6).sqrt()


@pytest.mark.parametrize(("place", "layer", "alpha"), [(1, 1, 1.0), (2, 1, 1.0), (1, 2, 12.0), (2, 2, 12.0)])
def test_keel_scales_the_stream_and_norms_twice_but_in_the_first_layer(place, layer, alpha):
    one, (x, y), seen = off_start(sublayer("post", kind="keel", place=place, layer=layer)), x_and_y(), []
    total = alpha * x + y
    close(one(x, lambda q: seen.append(q) or y), total if place == layer == 1 else one.norm(total))
    close(seen[0], one.residual.inner(x))
    assert isinstance(one.norm, torch.nn.LayerNorm) == (place > 1 or layer > 1)


def test_siamese_streams_share_the_function():
    one, (u, w) = off_start(sublayer(kind="siamese", layer=3)), x_and_y()
    r, seen, y = one.residual, [], 0.5 * u - w
    got_u, got_w = one((u, w), lambda q: seen.append(q) or y)
    close(seen[0], one.norm(r.post(u) + r.pre(w)))
    close(got_u, r.post(u) + y / 6**0.5)
    close(got_w, w + y)
    close(r.end((u, w)), r.post(u) + r.pre(w))
    # the top decoder layer has one sub-layer more than the others
    two = {"extra_encoder": {"kind": "birnn"}, "bridge": {"kind": "extra", "where": "top"}}
    side = {"num_layers": 2, "residual": {"kind": "siamese"}, "cross_attention": {"kind": "stacked"}}
    decoder = build(config("pre", decoder=side) | two, VOCAB, VOCAB, 1).decoder
    factors = [part.residual.factor for part in decoder.modules() if isinstance(part, SubLayer)]
    assert factors == [3**-0.5] * 3 + [7**-0.5] * 4


def mixed(v: torch.Tensor, u: torch.Tensor, heads: int) -> torch.Tensor:
    """v [J, D], one token, by hand."""
    width, out = v.shape[1] // heads, torch.empty(v.shape[1])
    for h in range(heads):
        s = slice(h * width, (h + 1) * width)
        scores = [math.exp(float(rms(one)[s] @ u[s])) for one in v]
        out[s] = sum(a * one[s] for a, one in zip(scores, v, strict=True)) / sum(scores)
    return out


@pytest.mark.parametrize("heads", [1, 4])
def test_each_group_of_channels_has_its_softmax_over_depth(heads):
    r = off_start(sublayer(kind="multi_head_depth_attention", place=3, heads=heads)).residual
    v = streams()
    got = r.mix(v.unbind(-2))
    for b in range(2):
        for t in range(3):
            close(got[b, t], mixed(v[b, t], r.query * r.gain, heads))
    weights = r.weights(type("S", (), {"sources": v.unbind(-2), "running": None}))["sources"]
    close(weights, r.shares(v).mean(2))
    close(weights.sum(-1), torch.ones(2, 3))
    one = off_start(sublayer(kind="depth_attention", place=3)).residual
    assert heads > 1 or torch.allclose(got, one.mix(v.unbind(-2)), atol=1e-6)


def test_deltas_are_routed_beside_the_stream():
    one, (h, y) = off_start(sublayer(kind="delta_depth_attention", place=3)), x_and_y()
    r, v, seen = one.residual, streams(), []
    state = one(State(v.unbind(-2), h), lambda q: seen.append(q) or y)
    for b in range(2):
        for t in range(3):
            close(seen[0][b, t], one.norm(h[b, t] + r.gate * mixed(v[b, t], r.query * r.gain, 1)))
    close(state.running, h + y)
    assert len(state.sources) == 4 and torch.equal(state.sources[-1], y)


def test_streams_start_with_a_scale_of_their_own():
    model = model_of("pre", kind="manifold_hyper", stream_scale=True)
    r, (x, _) = model.encoder.residual, x_and_y()
    x = torch.cat((x, x), dim=-1)
    for a, stream in enumerate(r.start(x).unbind(-2)):
        close(stream, (0.6 + r.deviation[a]) * x)
    assert 0.4 < float(r.deviation.abs().max()) <= (6 / 20) ** 0.5
    assert model_of("pre", kind="manifold_hyper").encoder.residual.deviation is None


def test_slices_are_read_mixed_and_written_by_their_equation():
    one, (h, y) = off_start(sublayer(kind="fractions", parts=2)), x_and_y()
    r, seen = one.residual, []
    got = r.end(one(r.start(h), lambda q: seen.append(q) or y))
    for b in range(2):
        for t in range(3):
            slices, c = h[b, t].view(2, 4), []
            for a in range(2):
                s = slices[a]
                z = torch.tanh((s - s.mean()) / (s.var(unbiased=False) + 1e-6).sqrt() @ r.weight)
                c.append(r.static[a] + z * torch.tensor([r.scale[0]] * 4 + [r.scale[1]]))
            read = torch.cat([sum(c[a][to] * slices[a] for a in range(2)) for to in range(2)])
            close(seen[0][b, t], one.norm(read))
            for to in range(2):
                want = sum(c[a][2 + to] * slices[a] for a in range(2)) + c[to][-1] * y[b, t].view(2, 4)[to]
                close(got[b, t, 4 * to : 4 * to + 4], want)


def maps(attention, x):
    return attention.query(x), attention.key(x), attention.value(x)


@torch.no_grad()
def test_keys_of_lower_layers_stand_beside_those_of_the_sequence():
    sides = {side: {"num_layers": 3, "self_attention": {"kind": "mixture_of_depths"}} for side in ("encoder", "decoder")}
    model = build(config("pre", **sides) | NO_DROPOUT, VOCAB, VOCAB, 1).eval()
    layers, history, flow = model.encoder.layers, model(*batch()).encoder, Flow()
    inputs = [x[1] for x in history.inputs[1:]]
    found = [maps(l.self_attention.attention, l.self_attention.sublayer.norm(x)) for l, x in zip(layers, inputs, strict=True)]
    for number, (layer, x) in enumerate(zip(layers, inputs, strict=True)):
        got, (q, k, v) = layer.self_attention(x[None], (), None, flow)[0], found[number]
        for t in range(len(x)):
            read = (torch.stack([*own, *(m[which][t] for m in found[:number])]) for which, own in ((1, k), (2, v)))
            close(got[t], x[t] + attended(layer.self_attention.attention, q[t : t + 1], *read)[0])


@torch.no_grad()
def test_merged_attention_reads_target_and_source_by_one_pair_of_maps():
    model = build(config("pre", decoder={"num_layers": 2, "layer": {"kind": "merged_attention"}}) | NO_DROPOUT, VOCAB, VOCAB, 1).eval()
    src, tgt = batch()
    output = model(src, tgt)
    memory = model.encode(src).memories[0][0].keys[0][: int((src[0] != 0).sum())]
    layer, x = model.decoder.layers[0], output.decoder.inputs[1][0]
    attention = layer.self_attention.attention
    q, k, v = maps(attention, layer.self_attention.sublayer.norm(x))
    got = output.decoder.attended[1][0]
    for t in range(len(x)):
        read = (torch.cat((own[: t + 1], of(memory))) for own, of in ((k, attention.key), (v, attention.value)))
        close(got[t], x[t] + attended(attention, q[t : t + 1], *read)[0])
    assert not [name for name, _ in model.named_parameters() if "cross" in name]
