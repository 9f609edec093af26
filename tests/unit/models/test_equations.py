"""Each variant against a naive transcription of its equation, written with loops and without the library's modules."""

import math

import pytest
import torch

from models.attention import causal_bias
from models.site import Flow
from models.transformer import build
from tests.unit.models.model_cases import VOCAB, batch, config


def states(norm, **component):
    """(model of four layers a side, what its decoder stack returned, its history): an equation starts from the outputs of layers."""
    model = build(config(norm, **both(**component)), VOCAB, VOCAB, 1).eval()
    different_values(model)
    output = model(*batch())
    return model, output.hidden, output.decoder


def different_values(model):
    """Norms and biases start alike, and as 1 and 0: drawn, none is taken for another or left out unseen."""
    model.requires_grad_(False)
    g = torch.Generator().manual_seed(5)
    for p in model.parameters():
        if p.dim() == 1 and p.eq(p[0]).all():
            p.add_(0.3 * torch.randn(p.shape, generator=g))


def both(**component):
    return {side: {"num_layers": 4, **component} for side in ("encoder", "decoder")}


def layer_norm(x, norm):
    mean = x.mean(-1, keepdim=True)
    variance = ((x - mean) ** 2).mean(-1, keepdim=True)
    return (x - mean) / torch.sqrt(variance + norm.eps) * norm.weight + norm.bias


def flow_of(tgt):
    return Flow(bias=causal_bias(tgt.shape[1], tgt.device), causal=True)


def sigmoid(x):
    return 1 / (1 + torch.exp(-x))


def feed_forward(ffn, x):
    return torch.clamp(x @ ffn.inner.weight.T + ffn.inner.bias, min=0) @ ffn.outer.weight.T + ffn.outer.bias


def agg(node, *inputs, activation="sigmoid", residual="all", top=0, causal=True):
    """Dou et al. 2018, Eq. 7 and Table 4, row by row."""
    out = torch.empty_like(inputs[0])
    for b in range(out.shape[0]):
        x = torch.cat([i[b] for i in inputs], -1)
        if activation == "attention":
            y = attention(node.attention, x, x, causal)
        else:
            inner = x @ node.inner.weight.T + node.inner.bias
            s = sigmoid(inner) if activation == "sigmoid" else torch.clamp(inner, min=0)
            y = s @ node.outer.weight.T + node.outer.bias
        for n, i in enumerate(inputs):
            y = y + i[b] if residual == "all" or (residual == "top" and n == top) else y
        out[b] = layer_norm(y, node.norm)
    return out


def same(got, want):
    torch.testing.assert_close(got, want.detach(), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("residual", ["all", "top", "none"])
@pytest.mark.parametrize("activation", ["sigmoid", "relu", "attention"])
def test_hierarchical(norm, residual, activation):
    options = {"activation": activation, "residual": residual}
    model, hidden, h = states(norm, connection={"kind": "hierarchical"} | options)
    nodes = model.decoder.connection.nodes
    g1 = agg(nodes[0], h.outputs[1], h.outputs[2], top=1, **options)
    same(h.inputs[2], h.outputs[1])
    same(h.inputs[3], g1)
    same(h.inputs[4], h.outputs[3])
    g2 = agg(nodes[1], h.outputs[3], h.outputs[4], g1, top=1, **options)
    same(hidden, layer_norm(g2, model.decoder.aggregation.norm) if norm == "pre" else g2)


@pytest.mark.parametrize(("activation", "residual"), [("sigmoid", "all"), ("sigmoid", "top"), ("attention", "none"), ("relu", "all")])
def test_iterative(activation, residual):
    options = {"activation": activation, "residual": residual}
    model, hidden, h = states("post", aggregation={"kind": "iterative"} | options)
    node = h.outputs[1]
    for l, module in zip(range(2, 5), model.decoder.aggregation.nodes, strict=True):
        node = agg(module, h.outputs[l], node, **options)
    same(hidden, node)
    for l in range(2, 5):
        same(h.inputs[l], h.outputs[l - 1])


def test_dense_is_eq_4_literally():
    _, hidden, h = states("post", connection={"kind": "dense"})
    kept = [h.outputs[0], h.outputs[1]]
    for l in range(2, 5):
        same(h.inputs[l], kept[l - 1])
        kept.append(h.outputs[l] + sum(kept[1:l]))
    same(hidden, kept[4])


@pytest.mark.parametrize("final_norm", [False, True])
def test_dense_over_layer_outputs(final_norm):
    model, hidden, h = states("post", connection={"kind": "dense", "mode": "layer_outputs", "final_norm": final_norm})
    u = h.outputs
    same(h.inputs[1], u[0])
    for l in range(2, 5):
        same(h.inputs[l], sum(u[1:l]))
    same(hidden, layer_norm(sum(u[1:5]), model.decoder.connection.norm) if final_norm else sum(u[1:5]))


def test_linear_narrow_and_wide():
    narrow, hidden, h = states("post", aggregation={"kind": "linear", "mode": "narrow"})
    d, weight = 16, narrow.decoder.aggregation.combine.weight
    same(hidden, sum(h.outputs[l] @ weight[:, (l - 1) * d : l * d].T for l in range(1, 5)))
    wide, hidden, h = states("post", aggregation={"kind": "linear", "mode": "wide"})
    first, second = wide.decoder.aggregation.combine
    x = torch.cat(h.outputs[1:], -1)
    same(hidden, (x @ first.weight.T + first.bias) @ second.weight.T + second.bias)
    assert first.weight.shape == (4 * d, 4 * d)


def mlrf_states(model, h, words=True, layers=True):
    table = model.decoder.aggregation.states.embedding
    first = 0 if words else 1
    return [h.outputs[l] + (table.weight[l - first] if layers else 0) for l in range(first, 5)]


def fusion(network, x):
    return layer_norm(feed_forward(network, x), network.norm)


@pytest.mark.parametrize("words", [True, False])
@pytest.mark.parametrize("layers", [True, False])
def test_mlrf_fnn(words, layers):
    component = {"kind": "mlrf-fnn", "d_f": 8, "word_embedding": words, "layer_embedding": layers}
    model, hidden, h = states("post", aggregation=component)
    same(hidden, fusion(model.decoder.aggregation.network, torch.cat(mlrf_states(model, h, words, layers), -1)))
    if layers:
        assert model.encoder.aggregation.states.embedding is model.decoder.aggregation.states.embedding


@pytest.mark.parametrize(
    "options",
    [
        {"n_hop": 1}, {"n_hop": 3}, {"n_hop": 2, "w1": "layer"}, {"n_hop": 3, "w1": "hop"}, {"word_embedding": False, "w1": "layer"},
        {"layer_embedding": False},
    ],
    ids=str,
)  # fmt: skip
def test_mlrf_self_attention(options):
    component = {"kind": "mlrf-self-attention", "d_a": 6, "d_f": 8} | options
    model, hidden, h = states("post", aggregation=component)
    module = model.decoder.aggregation
    z = mlrf_states(model, h, options.get("word_embedding", True), options.get("layer_embedding", True))

    def energy(n, p, state):
        w1 = {"layer": lambda: module.energy_in[n], "hop": lambda: module.energy_in[p]}.get(options.get("w1"), lambda: module.energy_in)()
        return math.exp(float(module.energy_out.weight[p] @ torch.tanh(w1.weight @ state)))

    want = torch.empty_like(hidden)
    for b in range(want.shape[0]):
        for t in range(want.shape[1]):
            hops = []
            for p in range(options.get("n_hop", 4)):
                e = [energy(n, p, state[b, t]) for n, state in enumerate(z)]
                hops.append(sum(w / sum(e) * state[b, t] for w, state in zip(e, z, strict=True)))
            want[b, t] = fusion(module.network, torch.cat(hops))
    same(hidden, want)


def attention(mha, q, keys, causal, values=None):
    """One sentence [T, D], head by head. values: of others than the keys."""
    read = (q, mha.query), (keys, mha.key), (keys if values is None else values, mha.value)
    query, key, value = (x @ m.weight.T + m.bias for x, m in read)
    heads = []
    for i in range(mha.num_heads):
        part = slice(i * mha.d_head, (i + 1) * mha.d_head)
        rows = []
        for t in range(q.shape[0]):
            seen = t + 1 if causal else keys.shape[0]
            scores = torch.stack([query[t, part] @ key[s, part] / math.sqrt(mha.d_head) for s in range(seen)])
            weights = torch.exp(scores) / torch.exp(scores).sum()
            rows.append(sum(weights[s] * value[s, part] for s in range(seen)))
        heads.append(torch.stack(rows))
    return torch.cat(heads, -1) @ mha.output.weight.T + mha.output.bias


def test_multi_layer_attention_k3():
    model, _, h = states("post", self_attention={"kind": "multi_layer", "k": 3})
    assert [layer.reads for layer in model.decoder.layers] == [0, 0, 0, 3]
    layer = model.decoder.layers[3].self_attention
    with torch.no_grad():
        got = layer(h.inputs[4], tuple(h.outputs[i] for i in (3, 2, 1)), None, flow_of(batch()[1]))
    for b in range(3):
        x = h.inputs[4][b]
        seen = [attention(layer.attention, x, h.outputs[3][b], True)]
        seen += [attention(mha, x, h.outputs[l][b], True) for mha, l in zip(layer.deeper, (2, 1), strict=True)]
        c = agg(layer.node, *(s[None] for s in seen))[0]
        same(got[b], layer_norm(c + x, layer.sublayer.norm))


def test_diversity_counts_real_positions_only():
    model = build(config("post", regularizers=[{"kind": "diversity", "weight": 1.0}]), VOCAB, VOCAB, 1).eval()
    src, tgt = batch()
    with torch.no_grad():
        output = model(src, tgt)
        terms = {side: (float(total), float(count)) for _, side, _, total, count in model.regularize(output)}
    want, n = 0.0, 0
    for b in range(3):
        for s in range(src.shape[1]):
            if src[b, s] != 0:
                for l in range(1, 4):
                    one, two = output.encoder.outputs[l][b, s], output.encoder.outputs[l + 1][b, s]
                    want += float((one @ two) ** 2 / ((one @ one) * (two @ two))) - 1.0
                    n += 1
    assert terms["encoder"][1] == n
    assert terms["encoder"][0] == pytest.approx(want, abs=1e-3)
