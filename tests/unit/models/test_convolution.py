"""Convolutional models against plain transcriptions of Gehring et al. 2017 and Shen et al. 2018."""

import math
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from models.cache import Cache
from models.config import ModelConfig
from models.layers.convolution import GluConv
from models.linear import NormedLinear
from models.loss import label_smoothed_loss
from models.site import Flow, Site
from models.transformer import build
from tests.unit.models.model_cases import VOCAB, batch

OWN: dict[str, Any] = {
    "norm": "post", "positions": "learned", "embedding_scale": False, "weight_norm": True, "init": "convs2s", "output_bias": True,
}  # fmt: skip


def dense(layers: int, widths, sumlen: int, *, kernels=3, summary: str = "linear") -> dict[str, Any]:
    return {
        "num_layers": layers,
        "layer": {"kind": "convolution", "widths": widths, "kernels": kernels, "residual": False},
        "connection": {"kind": "concatenated", "sumlen": sumlen, "summary": summary},
    }


def residual(layers: int, widths, *, kernels=3) -> dict[str, Any]:
    layer = {"kind": "convolution", "widths": widths, "kernels": kernels}
    return {"num_layers": layers, "layer": layer, "connection": {"kind": "projected"}}


def model(encoder: dict[str, Any], decoder: dict[str, Any], bridge: str, **more) -> dict[str, Any]:
    side = decoder | {"cross_attention": {"kind": "multistep"}}
    return OWN | {"d_model": 256, "encoder": encoder, "decoder": side, "bridge": {"kind": bridge}} | more


def both(side: dict[str, Any], bridge: str, **more) -> dict[str, Any]:
    return model(side, side, bridge, **more)


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
        history = model._encode(src[1:])[1]
        memory = model.encode(src[1:]).memories[0][0]
        keys = model.encoder.connection.outer(torch.cat(history.outputs[::-1], dim=-1))
        torch.testing.assert_close(memory.keys, keys)
        torch.testing.assert_close(memory.values, keys + model.bridge.base(history.outputs[0]))


@pytest.mark.parametrize(
    ("bridge", "sumlen"), [("multistep", None), *((f"dense_attention_{n}", sumlen) for n in (1, 2) for sumlen in (0, 3))]
)
def test_the_encoder_gets_its_gradient_divided_by_twice_the_attending_layers(bridge, sumlen):
    """A summary is one of its states."""
    side = residual(4, 6) if bridge == "multistep" else dense(4, 5, sumlen)
    grads = []
    for scaled in (True, False):
        model = made(both(side, bridge, **SMALL))
        model.bridge.scaled = model.bridge.scaled if scaled else lambda x: x
        src, tgt = batch()
        model(src, tgt).hidden.square().sum().backward()
        grads.append(model.encoder.layers[0].convolution.map.direction.grad)
    torch.testing.assert_close(grads[0] * 8, grads[1], atol=1e-6, rtol=1e-4)


def test_weight_norm_has_the_gradients_of_its_definition():
    own, x = NormedLinear(4, 5).double(), torch.randn(3, 4, dtype=torch.double, requires_grad=True)
    random_map(own)
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


def test_learned_positions_end():
    model, (src, tgt) = made(CONVS2S), batch()
    with torch.no_grad():
        model(src.repeat(1, 3)[:, :16], tgt)
        with pytest.raises(ValueError, match=r"17 subwords; .* up to 16 \(max_positions\)"):
            model(src.repeat(1, 3)[:, :17], tgt)
        encoded, cache = model.encode(src), Cache()
        model.decode(tgt.repeat(1, 3)[:, :16], encoded, cache)
        with pytest.raises(ValueError, match="17 subwords"):
            model.decode(tgt[:, :1], encoded, cache)
