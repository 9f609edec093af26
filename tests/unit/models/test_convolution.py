"""Convolutional models against plain transcriptions of Gehring et al. 2017 and Shen et al. 2018."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional as F

from models import Cache, build
from models.config import ModelConfig
from models.embedding import TooLongError
from models.inference import prepared
from models.layers.convolution import GluConv
from models.linear import NormedLinear
from models.loss import label_smoothed_loss
from models.site import Flow, Site
from tests.unit.models.conv_cases import both, dense, residual
from tests.unit.models.model_cases import VOCAB, batch

SMALL = {"d_model": 16, "d_ff": 8, "num_heads": 2, "word_dim": 10, "max_positions": 16}
CONVS2S = both(residual(2, 6), "multistep", **SMALL)
DENSENMT = both(dense(4, 5, 3), "dense_attention_2", **SMALL)
HALF = math.sqrt(0.5)


def made(settings, seed: int = 3):
    return build(settings, VOCAB, VOCAB, seed).eval()


def site(side: str, **config) -> Site:
    return Site(side, 1, 1, ModelConfig.of({"d_model": 16} | config))


def random_map(m: torch.nn.Linear) -> None:
    with torch.no_grad():
        for p in m.parameters():
            p.normal_()


# ---------------------------------------------------------------- the convolution


@pytest.mark.parametrize("kernel", [1, 3, 5])
def test_encoder_convolution_is_conv1d_over_each_sentence_alone(kernel):
    conv = GluConv(site("encoder", weight_norm=True), 7, 4, kernel).eval()
    random_map(conv.map)
    x = torch.randn(2, 6, 7)
    mask = torch.tensor([[True] * 6, [True] * 4 + [False] * 2])
    weight = conv.map.weight.view(8, kernel, 7).transpose(1, 2)
    got = conv(x, Flow(mask=mask))
    for row, length in ((0, 6), (1, 4)):
        y = F.conv1d(x[row : row + 1, :length].transpose(1, 2), weight, conv.map.bias, padding=kernel // 2).transpose(1, 2)[0]
        torch.testing.assert_close(got[row, :length], y[:, :4] * torch.sigmoid(y[:, 4:]), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kernel", [1, 2, 3, 5])
def test_decoder_convolution_is_conv1d_padded_on_the_left(kernel):
    conv = GluConv(site("decoder"), 7, 4, kernel).eval()
    random_map(conv.map)
    x = torch.randn(2, 6, 7)
    padded = F.pad(x.transpose(1, 2), (kernel - 1, 0))
    want = F.glu(F.conv1d(padded, conv.map.weight.view(8, kernel, 7).transpose(1, 2), conv.map.bias).transpose(1, 2), dim=-1)
    torch.testing.assert_close(conv(x, Flow(causal=True)), want, atol=1e-5, rtol=1e-5)


def test_a_cached_convolution_keeps_its_window_and_no_more():
    conv, cache = GluConv(site("decoder"), 7, 4, 3).eval(), Cache()
    random_map(conv.map)
    x = torch.randn(2, 40, 7)
    whole = conv(x, Flow(causal=True))
    with torch.no_grad():
        pieces = [conv(piece, Flow(causal=True, cache=cache)) for piece in x.split([1, 1, 5, 1, 32], dim=1)]
        held = [cache.bytes()]
        for _ in range(5):
            conv(x[:, :1], Flow(causal=True, cache=cache))
            held.append(cache.bytes())
    torch.testing.assert_close(torch.cat(pieces, dim=1), whole, atol=1e-5, rtol=1e-5)
    assert held == [2 * 2 * 7 * 4] * 6


# ---------------------------------------------------------------- ConvS2S


def _encoder(model, src):
    """One sentence without padding."""
    embedding, connection = model.src_embedding, model.encoder.connection
    h_0 = embedding.project(embedding.words(src)) + embedding.places.weight[: src.shape[1]]
    h = connection.inner(h_0)
    for layer in model.encoder.layers:
        h = (_conv(layer.convolution, h, 1, 1) + h) * HALF
    return h_0, connection.outer(h)


def _conv(conv, x, left, right):
    """Position by position."""
    padded = F.pad(x, (0, 0, left, right))
    rows = [conv.map(padded[:, t : t + conv.kernel].flatten(1)) for t in range(x.shape[1])]
    u, v = torch.stack(rows, dim=1).chunk(2, dim=-1)
    return u * torch.sigmoid(v)


def test_convs2s_is_its_transcription():
    model, (src, tgt) = made(CONVS2S), batch()
    with torch.no_grad():
        for row in range(3):
            words = src[row][src[row] != 0][None]
            s_0, keys = _encoder(model, words)
            values = (keys + s_0) * HALF
            embedding, connection = model.tgt_embedding, model.decoder.connection
            g = embedding.project(embedding.words(tgt[row : row + 1])) + embedding.places.weight[: tgt.shape[1]]
            h = connection.inner(g)
            for layer in model.decoder.layers:
                z, attention = _conv(layer.convolution, h, 2, 0), layer.cross_attention
                d = (attention.query(z) + g) * HALF
                c = (d @ keys.transpose(1, 2)).softmax(-1) @ values * words.shape[1] ** 0.5
                h = ((attention.output(c) + z) * HALF + h) * HALF
            torch.testing.assert_close(model(src, tgt).hidden[row : row + 1], connection.outer(h), atol=2e-5, rtol=1e-4)


# ---------------------------------------------------------------- DenseNMT


def test_widths_of_dense_layers():
    """Encoder E + i c; decoder E + 2 i c; after a summary from E on."""
    model = made(DENSENMT)
    assert [m.convolution.map.in_features // 3 for m in model.encoder.layers] == [16, 21, 16, 21]
    assert [m.convolution.map.in_features // 3 for m in model.decoder.layers] == [16, 26, 16, 26]
    assert [m.in_features for m in model.decoder.connection.summaries] == [36]
    assert model.decoder.connection.outer.in_features == 36 and model.decoder.connection.outer.out_features == 10
    assert isinstance(model.encoder.connection.outer, torch.nn.Identity)  # dense_attention_2 does not read it
    assert [m.in_features for m in model.bridge.keys] == [16, 5, 5]


def test_densenmt_is_its_transcription():
    model, (src, tgt) = made(DENSENMT), batch()
    encoder, decoder = model.encoder, model.decoder
    with torch.no_grad():
        for row in range(3):
            words = src[row][src[row] != 0][None]
            e = model.src_embedding
            base = e.project(e.words(words)) + e.places.weight[: words.shape[1]]
            states = [base]
            for l, layer in enumerate(encoder.layers):
                if l == 2:
                    states = [encoder.connection.summaries[0](torch.cat(states[::-1], dim=-1))]
                states.append(_conv(layer.convolution, torch.cat(states[::-1], dim=-1), 1, 1))
            keys = [L(h) for L, h in zip(model.bridge.keys, states, strict=True)]
            values = [k + model.bridge.base(states[0]) for k in keys]
            e = model.tgt_embedding
            z_0 = e.project(e.words(tgt[row : row + 1])) + e.places.weight[: tgt.shape[1]]
            below = z_0
            for l, layer in enumerate(decoder.layers):
                if l == 2:
                    below = decoder.connection.summaries[0](below)
                z, attention = _conv(layer.convolution, below, 2, 0), layer.cross_attention
                q = (attention.query(z) + z_0) * HALF
                a = sum((q @ k.transpose(1, 2)).softmax(-1) @ v for k, v in zip(keys, values, strict=True)) * words.shape[1] ** 0.5
                below = torch.cat((z, attention.output(a), below), dim=-1)
            torch.testing.assert_close(model(src, tgt).hidden[row : row + 1], decoder.connection.outer(below), atol=2e-5, rtol=1e-4)


def test_dense_attention_1_attends_to_the_mixture():
    model, (src, _) = made(both(dense(4, 5, 0), "dense_attention_1", **SMALL)), batch()
    with torch.no_grad():
        _, history = model._encode(src[1:])
        memory = model.encode(src[1:]).memories[0][0]
        keys = model.encoder.connection.outer(torch.cat(history.outputs[::-1], dim=-1))
        torch.testing.assert_close(memory.keys, keys)
        torch.testing.assert_close(memory.values, keys + model.bridge.base(history.outputs[0]))


def test_several_memories_are_summed():
    model, (src, _) = made(CONVS2S), batch()
    attention, (memory,) = model.decoder.layers[0].cross_attention, model.encode(src).memories[0]
    x, flow = torch.randn(3, 4, 6), Flow(h_0=torch.randn(3, 4, 16))
    bias = attention.output.bias
    one, two = (attention(x, (memory,) * n, flow) - bias for n in (1, 2))
    torch.testing.assert_close(two, 2 * one, atol=1e-5, rtol=1e-4)


def test_attention_maps_are_one_for_each_encoder_layer_and_sum_to_one():
    model, (src, tgt) = made(DENSENMT), batch()
    trace: list = []
    with torch.no_grad():
        model.decode(tgt, model.encode(src), trace=trace)
    assert [tuple(w.shape) for _, w in trace] == [(3, 3, 6, 7)] * 4
    assert all(torch.allclose(w.sum(-1), torch.ones(3, 3, 6)) and w[0, ..., 4:].max() == 0 for _, w in trace)


# ---------------------------------------------------------------- gradients, weight normalisation, initial values


@pytest.mark.parametrize("bridge", ["multistep", "dense_attention_1", "dense_attention_2"])
def test_the_encoder_gets_its_gradient_divided_by_twice_the_attending_layers(bridge):
    side = residual(3, 6) if bridge == "multistep" else dense(3, 6, 0)
    grads = []
    for scaled in (True, False):
        model = made(both(side, bridge, **SMALL) | {"bridge": {"kind": bridge, "scale_gradient": scaled}})
        src, tgt = batch()
        model(src, tgt).hidden.square().sum().backward()
        grads.append(model.encoder.layers[2].convolution.map.direction.grad)
    torch.testing.assert_close(grads[0] * 6, grads[1], atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize("bridge", ["dense_attention_1", "dense_attention_2"])
def test_a_summary_is_a_state_of_the_encoder_whose_gradient_is_divided_too(bridge):
    grads = []
    for scaled in (True, False):
        model = made(both(dense(4, 5, 3), bridge, **SMALL) | {"bridge": {"kind": bridge, "scale_gradient": scaled}})
        src, tgt = batch()
        model(src, tgt).hidden.square().sum().backward()
        grads.append(model.encoder.layers[0].convolution.map.direction.grad)
    torch.testing.assert_close(grads[0] * 8, grads[1], atol=1e-6, rtol=1e-4)


def _normed(out, width):
    normed = NormedLinear(width, out)
    random_map(normed)
    return normed


def test_weight_norm_has_the_gradients_of_its_definition():
    own, x = _normed(5, 4).double(), torch.randn(3, 4, dtype=torch.double, requires_grad=True)
    assert torch.autograd.gradcheck(lambda t: own(t), (x,))
    direction, gain = (p.detach().clone().requires_grad_() for p in (own.direction, own.gain))
    own(x).square().sum().backward()
    F.linear(x, direction * (gain / direction.norm(dim=1))[:, None], own.bias.detach()).square().sum().backward()
    torch.testing.assert_close(own.direction.grad, direction.grad)
    torch.testing.assert_close(own.gain.grad, gain.grad)


@pytest.mark.parametrize("embeddings", ["separate", "tied-output", "three-way"])
def test_the_output_is_normed_unless_it_is_the_words(embeddings):
    model = made(CONVS2S | {"embeddings": embeddings})
    assert isinstance(model.output, NormedLinear) == (embeddings == "separate")
    src, tgt = batch()
    output = model(src, tgt[:, :-1])
    label_smoothed_loss(output.real_hidden(), model.output.weight, model.output.bias, tgt[:, 1:].flatten(), 0.1)[0].backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in model.parameters())
    assert (model.output.weight is model.tgt_embedding.words.weight) == (embeddings != "separate")


def test_gains_start_as_norms_so_that_the_function_is_the_plain_one():
    src, tgt = batch()
    normed, plain = made(CONVS2S), made(CONVS2S | {"weight_norm": False})
    names = {n.replace("direction", "weight"): p for n, p in normed.named_parameters() if not n.endswith("gain")}
    with torch.no_grad():
        for name, p in plain.named_parameters():
            p.copy_(names[name])
        torch.testing.assert_close(normed(src, tgt).hidden, plain(src, tgt).hidden, atol=1e-5, rtol=1e-4)


def test_initial_values_are_those_of_convs2s():
    """Standard deviations within 3 per cent of sqrt((1 - p) / n), before a GLU twice that; words and positions 0.1; biases 0."""
    wide = both(residual(2, 128), "multistep", word_dim=64, dropout={"embedding": 0.3, "residual": 0.2}) | {"weight_norm": True}
    model = build(wide, 4000, 4000, 5)
    expected = {
        model.encoder.layers[0].convolution.map.direction: 2 * math.sqrt(0.8 / (3 * 128)),
        model.encoder.connection.inner.direction: math.sqrt(0.7 / 256),
        model.encoder.connection.outer.direction: math.sqrt(1 / 128),
        model.decoder.layers[1].cross_attention.query.direction: math.sqrt(1 / 128),
        model.output.direction: math.sqrt(0.8 / 64),
        model.src_embedding.words.weight: 0.1,
        model.tgt_embedding.places.weight: 0.1,
    }
    for parameter, std in expected.items():
        assert parameter.std().item() == pytest.approx(std, rel=0.03)
    assert all(p.abs().max() == 0 for n, p in model.named_parameters() if n.endswith("bias"))


# ---------------------------------------------------------------- positions, decoding, other ways of running it


def test_learned_positions_end():
    model, (src, tgt) = made(CONVS2S), batch()
    with torch.no_grad():
        model(src.repeat(1, 3)[:, :16], tgt)
        with pytest.raises(TooLongError, match=r"17 subwords; .* up to 16 \(max_positions\)"):
            model(src.repeat(1, 3)[:, :17], tgt)
        encoded, cache = model.encode(src), Cache()
        model.decode(tgt.repeat(1, 3)[:, :16], encoded, cache)
        with pytest.raises(TooLongError, match="17 subwords"):
            model.decode(tgt[:, :1], encoded, cache)


def test_without_packed_products_normed_weights_are_folded_once(monkeypatch):
    monkeypatch.setattr("models.inference.torch.backends.mkldnn.is_available", lambda: False)
    model, (src, tgt) = made(CONVS2S), batch()
    with torch.no_grad():
        want = model.logits(model(src, tgt).hidden)
        calls: list[int] = []
        norm = torch._weight_norm
        monkeypatch.setattr(torch, "_weight_norm", lambda *a: calls.append(1) or norm(*a))
        with prepared(model):
            before = len(calls)
            torch.testing.assert_close(model.logits(model(src, tgt).hidden), want)
            assert before and len(calls) == before


def test_a_mixed_model_decodes_as_it_trains():
    """Convolutional encoder, Transformer decoder; and the other way round."""
    transformer = {"num_layers": 2}
    conv = residual(2, 6)
    for settings in (
        {"encoder": conv, "decoder": transformer, "bridge": {"kind": "top"}},
        {"encoder": transformer, "decoder": conv | {"cross_attention": {"kind": "multistep"}}, "bridge": {"kind": "dense_attention_2"}},
    ):
        model, (src, tgt) = made(SMALL | settings), batch()
        with torch.no_grad():
            encoded, cache = model.encode(src), Cache()
            steps = torch.cat([model.decode(tgt[:, t : t + 1], encoded, cache) for t in range(tgt.shape[1])], dim=1)
            torch.testing.assert_close(steps, model(src, tgt).hidden, atol=2e-5, rtol=1e-4)
