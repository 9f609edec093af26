"""Self-attention whose layers share values and keys: each against its equation, its start and its size."""

import math

import pytest
import torch

from models.site import Flow
from models.transformer import build
from tests.unit.models.model_cases import NO_DROPOUT, VOCAB, batch, config
from tests.unit.models.residual_cases import hidden


def model_of(layers: int = 3, norm: str = "pre", **kind):
    sides = {side: {"num_layers": layers, "self_attention": kind} for side in ("encoder", "decoder")}
    return build(config(norm, **sides) | NO_DROPOUT, VOCAB, VOCAB, 1)


def attended(attention, q, k, v):
    """One sentence [T, D] by hand: heads of softmax(q k^T / sqrt(K)) v, then the output map."""
    heads = [
        (q[:, s] @ k[:, s].T / math.sqrt(attention.d_head)).softmax(-1) @ v[:, s]
        for s in (slice(h * attention.d_head, (h + 1) * attention.d_head) for h in range(attention.num_heads))
    ]
    return attention.output(torch.cat(heads, -1))


def maps_of(model, layer, x):
    """Queries, keys and values [T, D] of an encoder layer that reads x [T, D]."""
    attention = model.encoder.layers[layer - 1].self_attention
    normed = attention.sublayer.norm(x)
    return attention.attention.query(normed), attention.attention.key(normed), attention.attention.value(normed)


@pytest.mark.parametrize(
    ("options", "weights"),
    [
        ({}, (0.5, 0.5)),
        ({"first": 2.0, "own": 1.0, "learn": False}, (2.0, 1.0)),
        ({"first": 0.25, "form": "interpolate"}, (0.25, 0.75)),
        ({"share": True}, (1.0, 0.0)),
        ({"from_layer": 3}, (0.0, 1.0)),
    ],
)
@torch.no_grad()
def test_values_are_mixed_with_those_of_layer_1(options, weights):
    model = model_of(kind="value_residual", **options).eval()
    history = model(*batch()).encoder
    x_1, x_2 = (history.inputs[l][1] for l in (1, 2))
    q, k, v = maps_of(model, 2, x_2)
    v = weights[0] * maps_of(model, 1, x_1)[2] + weights[1] * v
    own, want = model.encoder.layers[1].self_attention, attended(model.encoder.layers[1].self_attention.attention, q, k, v) + x_2
    flow = Flow(memo={("values", 1): maps_of(model, 1, x_1)[2][None]})
    torch.testing.assert_close(own(x_2[None], (), None, flow)[0], want, atol=1e-5, rtol=1e-4)


@torch.no_grad()
def test_layers_read_the_heads_of_all_layers_below():
    model = model_of(kind="layer_memory").eval()
    history = model(*batch()).encoder
    xs = [history.inputs[l][1] for l in (1, 2, 3)]
    maps = [maps_of(model, l, x) for l, x in enumerate(xs, start=1)]
    attention, (q, _, _) = model.encoder.layers[2].self_attention.attention, maps[2]
    routed = []
    for which in (1, 2):
        heads = [m[which][:, h * 8 : (h + 1) * 8] for m in maps for h in range(2)]
        routed.append(torch.cat([sum(r * head for r, head in zip(row, heads, strict=True)) for row in attention.router.weight], -1))
    want = xs[2] + attended(attention, q, *routed)
    flow = Flow()
    for layer, x in zip(model.encoder.layers, xs, strict=True):
        got = layer.self_attention(x[None], (), None, flow)[0]
    torch.testing.assert_close(got, want, atol=1e-5, rtol=1e-4)


@torch.no_grad()
def test_a_gate_of_each_position_and_head_adds_values_of_layer_1():
    model = model_of(kind="selective_values").eval()
    history = model(*batch()).encoder
    x_1, x_3 = (history.inputs[l][1] for l in (1, 3))
    (_, _, first), (q, k, v) = maps_of(model, 1, x_1), maps_of(model, 3, x_3)
    own, mixed = model.encoder.layers[2].self_attention, v.clone()
    for t, x in enumerate(own.sublayer.norm(x_3)):
        for h, row in enumerate(own.attention.gate.weight):
            mixed[t, 8 * h : 8 * h + 8] += max(float(row @ x), 0.0) * first[t, 8 * h : 8 * h + 8]
    assert not torch.equal(mixed, v)
    got = own(x_3[None], (), None, Flow(memo={("values", 1): first[None]}))[0]
    torch.testing.assert_close(got, x_3 + attended(own.attention, q, k, mixed), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("stride", [1, 2])
@torch.no_grad()
def test_values_are_mixed_over_depth_by_the_query_at_their_position(stride):
    model = model_of(kind="depth_values", stride=stride).eval()
    history = model(*batch()).encoder
    maps = [maps_of(model, l, history.inputs[l][1]) for l in (1, 2, 3)]
    mixed: list[torch.Tensor] = []
    for layer, (q, _, v) in enumerate(maps):
        read, value = range(0, layer, stride), torch.empty_like(v)
        for t in range(len(q)):
            for s in (slice(0, 8), slice(8, 16)):
                scores = [math.exp(float(q[t, s] @ maps[j][1][t, s]) / math.sqrt(8)) for j in (*read, layer)]
                values = [*(mixed[j][t, s] for j in read), v[t, s]]
                value[t, s] = sum(a * one for a, one in zip(scores, values, strict=True)) / sum(scores)
        mixed.append(value)
    q, k, _ = maps[2]
    want = history.inputs[3][1] + attended(model.encoder.layers[2].self_attention.attention, q, k, mixed[2])
    flow = Flow()
    for layer, x in zip(model.encoder.layers, history.inputs[1:], strict=True):
        got = layer.self_attention(x[1][None], (), None, flow)[0]
    torch.testing.assert_close(got, want, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("kind", [{"kind": "value_residual", "first": 0.0, "own": 1.0}, {"kind": "layer_memory", "others": "zero"}])
@torch.no_grad()
def test_they_may_start_as_the_plain_network(norm, kind):
    want = hidden(model_of(3, norm, kind="single").eval())
    torch.testing.assert_close(hidden(model_of(3, norm, **kind).eval()), want, atol=2e-6, rtol=1e-5)
    assert (hidden(model_of(3, norm, kind=kind["kind"]).eval()) - want).abs().max() > 1e-2
