"""Multiscale collaboration of Wei et al. 2020 against a slow transcription: sentence by sentence, position by position."""

import pytest
import torch

from models.transformer import build
from tests.unit.models.model_cases import VOCAB, batch, variant
from tests.unit.models.test_equations import attention, different_values, feed_forward, layer_norm, same, sigmoid

ABLATIONS = {
    "gate": ("self_attention", "contextual"),
    "three norms": ("self_attention", "contextual ctx_norms=3"),
    "addition": ("self_attention", 'contextual gate="add"'),
    "addition, three norms": ("self_attention", 'contextual gate="add" ctx_norms=3'),
    "FFN cell": ("context", 'multiscale cell="ffn"'),
    "plain encoder layers": ("cross_attention", "contextual"),
    "no context": ("bridge", "multiscale"),
}


def gru(cell, h, x):
    """One position: h [D], x [D]."""
    d = len(h)
    w, u, b, c = cell.input.weight, cell.state.weight, cell.input.bias, cell.state.bias
    r = sigmoid(w[:d] @ x + b[:d] + u[:d] @ h + c[:d])
    z = sigmoid(w[d : 2 * d] @ x + b[d : 2 * d] + u[d : 2 * d] @ h + c[d : 2 * d])
    new = torch.tanh(w[2 * d :] @ x + b[2 * d :] + r * (u[2 * d :] @ h + c[2 * d :]))
    return (1 - z) * new + z * h


def fused(fusion, a_h, q, x, c):
    """a_h, q, x [T, D]; c [S, D] -> [T, D]"""
    att = fusion.attention
    keys = layer_norm(c, att.key_norm)
    values = keys if att.value_norm is None else layer_norm(c, att.value_norm)
    queries = q if att.query_norm is None else layer_norm(x, att.query_norm)
    a_c = attention(att, queries, keys, False, values)
    if fusion.own is None:
        return a_h + a_c
    out = torch.empty_like(a_h)
    for t in range(len(a_h)):
        g = sigmoid(fusion.own.weight @ a_h[t] + fusion.context.weight @ a_c[t] + fusion.context.bias)
        out[t] = g * a_h[t] + (1 - g) * a_c[t]
    return out


def sub_layer(sub, x, function):
    return x + function(layer_norm(x, sub.norm)) if sub.pre else layer_norm(x + function(x), sub.norm)


def encode(model, h_0):
    """One sentence [S, D] -> ([b^1..b^N], [C^0..C^N])."""
    stack = model.encoder
    per_block = len(stack.layers) // model.bridge.blocks
    x, c, blocks, contexts = h_0, h_0, [], [h_0]
    for n in range(model.bridge.blocks):
        for layer in stack.layers[n * per_block : (n + 1) * per_block]:
            own = layer.self_attention

            def attend(q, own=own, x=x, c=c):
                a_h = attention(own.attention, q, q, False)
                return fused(own.fusion, a_h, q, x, c) if hasattr(own, "fusion") else a_h

            x = sub_layer(own.sublayer, x, attend)
            x = sub_layer(layer.sublayer, x, lambda q, net=layer.feed_forward: feed_forward(net, q))
        blocks.append(layer_norm(x, stack.aggregation.norm) if model.config.norm == "pre" else x)
        if stack.context is not None:
            cell = stack.context.cell
            step = gru if hasattr(cell, "state") else lambda cell, h, x: feed_forward(cell, torch.cat((h, x)))
            c = torch.stack([step(cell, c[s], blocks[-1][s]) for s in range(len(c))])
            contexts.append(c)
    return blocks, contexts


def decode(model, y, blocks, contexts):
    """One sentence's target [T, D]."""
    for n, layer in enumerate(model.decoder.layers):
        own, cross = layer.self_attention, layer.cross_attention
        y = sub_layer(own.sublayer, y, lambda q, own=own: attention(own.attention, q, q, True))

        def attend(q, cross=cross, y=y, n=n):
            a_h = attention(cross.attention, q, blocks[n], False)
            return a_h if getattr(cross, "fusion", None) is None else fused(cross.fusion, a_h, q, y, contexts[n + 1])

        y = sub_layer(cross.sublayer, y, attend)
        y = sub_layer(layer.sublayer, y, lambda q, net=layer.feed_forward: feed_forward(net, q))
    return layer_norm(y, model.decoder.aggregation.norm) if model.config.norm == "pre" else y


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("name", ABLATIONS)
def test_every_ablation_is_its_equation(name, norm):
    model = build(variant(*ABLATIONS[name], norm), VOCAB, VOCAB, 1).eval()
    different_values(model)
    src, tgt = batch()
    output = model(src, tgt)
    for b in range(len(src)):
        real = src[b] != 0
        blocks, contexts = encode(model, output.encoder.outputs[0][b, real])
        for got, want in zip(output.encoder.blocks, blocks, strict=True):
            same(got[b, real], want)
        if output.encoder.contexts:
            for got, want in zip(output.encoder.contexts, contexts, strict=True):
                same(got[b, real], want)
        same(output.hidden[b], decode(model, output.decoder.outputs[0][b], blocks, contexts))
