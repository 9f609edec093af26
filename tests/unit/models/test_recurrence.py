"""Recurrence encoders and two-memory attention against their equations, word by word."""

from functools import partial

import pytest
import torch

from models.config import ModelConfig
from models.recurrence import BiArn, BiRnn
from models.site import Site
from models.transformer import build
from tests.unit.models.model_cases import VOCAB, batch, config
from tests.unit.models.test_equations import attention, feed_forward, flow_of, layer_norm, same, sigmoid

MASKS = {
    "ragged": torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [1, 1, 1, 0, 0]]).bool(),
    "full": torch.ones(3, 5).bool(),
    "one empty, one with gaps": torch.tensor([[1, 1, 0, 1, 1], [0, 0, 0, 0, 0], [0, 1, 1, 0, 0]]).bool(),
}
RECURRENCES = {
    "birnn": BiRnn,
    "birnn from zero": partial(BiRnn, start="zero"),
    "biarn 3": partial(BiArn, steps=3),
    "biarn J": partial(BiArn, steps="J"),
}


def made(name, width, d=4):
    torch.manual_seed(1)
    module = RECURRENCES[name](Site("encoder", 0, 1, ModelConfig(d_model=d, num_heads=2)), width).double()
    for p in module.parameters():
        torch.nn.init.uniform_(p, -0.9, 0.9)
    return module


def step(gru, k, x, h):
    """One cell of direction k, gate by gate, vectors alone."""
    d = len(h)
    w, u = gru.input[k].split(d), gru.state[k].split(d)
    r, update = (sigmoid(torch.cat((w[i], u[i]), 1) @ torch.cat((x, h))) for i in range(2))
    candidate = torch.tanh(torch.cat((w[2], u[2]), 1) @ torch.cat((x, r * h)) + gru.bias[k])
    return (1 - update) * h + update * candidate


def first(x, d, k, start):
    mean = sum(x) / len(x)
    return torch.zeros(d, dtype=x.dtype) if start == "zero" else mean[k * d : (k + 1) * d] if len(mean) == 2 * d else mean


def birnn(module, x, start):
    """One sentence [J, D] without padding -> [J, 2d]."""
    d, outputs = module.d, []
    for k, order in enumerate((range(len(x)), range(len(x) - 1, -1, -1))):
        h, out = first(x, d, k, start), [None] * len(x)
        for j in order:
            h = out[j] = step(module.gru, k, x[j], h)
        outputs.append(torch.stack(out))
    return torch.cat(outputs, 1)


def biarn(module, x):
    """One sentence [J, D] -> [T, 2d]."""
    d, outputs, steps = module.d, [], len(x) if module.steps == "J" else module.steps
    for k, order in enumerate((range(steps), range(steps - 1, -1, -1))):
        h, out = first(x, d, k, "mean"), [None] * steps
        for t in order:
            e = torch.stack([module.score.weight[0] @ torch.tanh(module.query.weight @ h + module.key.weight @ y) for y in x])
            found = sum(w * y for w, y in zip(torch.exp(e) / torch.exp(e).sum(), x, strict=True))
            h = out[t] = step(module.gru, k, found, h)
        outputs.append(torch.stack(out))
    return torch.cat(outputs, 1)


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize("width", [4, 8])
@pytest.mark.parametrize("name", RECURRENCES)
def test_outputs_and_gradients_are_those_of_the_equation(name, width, mask):
    module = made(name, width)
    x = torch.randn(3, 5, width, dtype=torch.double, requires_grad=True)
    out, slots = module(x, mask)
    assert not out[~slots].any()
    sums = []
    for b, want in enumerate(by_hand(module, name, x, mask)):
        if want is not None:
            torch.testing.assert_close(out[b][slots[b]], want, atol=1e-6, rtol=0)
            weights = torch.arange(want.numel(), dtype=want.dtype).view_as(want).sin()
            sums.append([(found * weights).sum() for found in (out[b][slots[b]], want)])
    scan, equation = (torch.autograd.grad(sum(each), [x, *module.parameters()]) for each in zip(*sums, strict=True))
    for one, two in zip(scan, equation, strict=True):
        torch.testing.assert_close(one, two, atol=1e-6, rtol=0)


def by_hand(module, name, x, mask):
    """Each sentence's states [T, 2d]; None for an empty sentence."""
    start = "zero" if name == "birnn from zero" else "mean"  # the mean where nothing is said (Hao et al. 2019)
    real = [row[kept] for row, kept in zip(x, mask, strict=True)]
    return [None if not len(r) else birnn(module, r, start) if isinstance(module, BiRnn) else biarn(module, r) for r in real]


@pytest.mark.parametrize("scale", [0.0, 1e-3, 15.0, 1e4])
def test_energies_of_any_size(scale):
    """Saturated or not, the scan's form of tanh neither overflows nor differs."""
    module, mask = made("biarn 3", 8).float(), MASKS["full"]
    x = torch.randn(3, 5, 8, requires_grad=True)
    with torch.no_grad():
        module.key.weight.mul_(scale)
    results = []
    for out in (module(x, mask)[0], torch.stack(by_hand(module, "biarn 3", x, mask))):
        results.append((out, *torch.autograd.grad(out.square().sum(), [x, *module.parameters()])))
    for one, two in zip(*results, strict=True):
        assert torch.isfinite(one).all()
        torch.testing.assert_close(one, two, atol=1e-4, rtol=1e-3)


def two_memories(kind, norm="post", cross="stacked", where="top", **options):
    decoder = {"num_layers": 4, "cross_attention": {"kind": cross}}
    return config(norm, extra_encoder={"kind": kind, **options}, bridge={"kind": "extra", "where": where}, decoder=decoder)


@pytest.mark.parametrize("positions", [False, True])
@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize(("kind", "options"), [("birnn", {}), ("biarn", {"steps": 3}), ("biarn", {"steps": "J"}), ("multi_column", {})])
def test_layers_of_an_extra_encoder(kind, options, norm, positions):
    model = build(two_memories(kind, norm, num_layers=3, rec_input_pos=positions, **options), VOCAB, VOCAB, 1).eval()
    model.requires_grad_(False)
    src, _ = batch()
    memory = model.encode(src).memories[3][1]
    for b in range(3):
        words = src[b][src[b] != 0][None]
        h = (model.src_embedding(words) if positions else model.src_embedding.scaled(words))[0]
        for n, layer in enumerate(model.extra_encoder.layers):
            run = partial(birnn, start="zero" if kind == "multi_column" else "mean") if isinstance(layer.recurrence, BiRnn) else biarn
            sub = layer.recurrence_sublayer
            rec = run(layer.recurrence, layer_norm(h, sub.norm) if norm == "pre" else h)
            rec = rec + h if n else rec
            c = h = rec if norm == "pre" else layer_norm(rec, sub.norm)
            if kind != "multi_column":
                f = feed_forward(layer.feed_forward, layer_norm(c, layer.sublayer.norm) if norm == "pre" else c)
                h = f + c if norm == "pre" else layer_norm(f + c, layer.sublayer.norm)
        want = layer_norm(h, model.extra_encoder.norm) if norm == "pre" else h
        same(memory.keys[b][memory.mask[b]], want)
        assert (memory.bias[b, 0, 0] == 0).eq(memory.mask[b]).all() and memory.bias[b, 0, 0][~memory.mask[b]].le(-1e8).all()
    steps = options.get("steps", "J")
    assert memory.mask.sum(1).tolist() == ((src != 0).sum(1).tolist() if steps == "J" else [steps] * 3)


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("cross", ["stacked", "gated_sum"])
def test_two_memories_in_the_decoder(cross, norm):
    model = build(two_memories("biarn", norm, cross, "all", steps=3), VOCAB, VOCAB, 1).eval()
    model.requires_grad_(False)
    src, tgt = batch()
    history, encoded = model(src, tgt).decoder, model.encode(src)
    layer, (h_e, h_r) = model.decoder.layers[1].cross_attention, encoded.memories[1]

    def sub(x, sublayer, mha, memory):
        f = attention(mha, layer_norm(x, sublayer.norm) if norm == "pre" else x, memory, False)
        return x + f if norm == "pre" else layer_norm(x + f, sublayer.norm)

    got = layer(history.inputs[2], encoded.memories[1], flow_of(tgt))
    for b in range(3):
        c = history.inputs[2][b]
        d = sub(c, layer.sublayer, layer.attention, h_e.keys[b][h_e.mask[b]])
        r = sub(d if cross == "stacked" else c, layer.extra_sublayer, layer.extra_attention, h_r.keys[b])
        if cross == "gated_sum":
            share = sigmoid(torch.cat((d, r), -1) @ layer.gate.weight.T + layer.gate.bias)
            r = share * d + (1 - share) * r
        same(got[b], r)


@pytest.mark.parametrize("training", [False, True])
def test_merged_columns(training):
    changes = {"bridge": {"kind": "merged"}, "extra_encoder": {"kind": "multi_column", "num_layers": 2}}
    model = build(config("post", **changes, dropout={"embedding": 0.0, "residual": 0.0}), VOCAB, VOCAB, 1).train(training)
    model.requires_grad_(False)
    src, tgt = batch()
    seen = []
    hooks = [m.register_forward_hook(lambda *a: seen.append(a[2])) for m in (model.encoder, model.extra_encoder, model.bridge)]
    model(src, tgt)  # in training the stack, the column or both come packed
    (h_e, _), h_r, memories = seen
    for hook in hooks:
        hook.remove()
    bridge, memory = model.bridge, memories[2][0]
    rows = [x if p is None else p.unpack(x) for x, p in ((h_e, memory.packing), (h_r.keys, h_r.packing), (memory.keys, memory.packing))]
    assert (memory.packing is not None) == training and all(m[0] is memory for m in memories)
    h_e, h_r, got = (x[src != 0] for x in rows)
    want = torch.cat((layer_norm(h_e, bridge.encoder_norm), layer_norm(h_r, bridge.extra_norm)), -1) @ bridge.merge.weight.T
    same(got, layer_norm(want, bridge.norm))


@pytest.mark.parametrize("init", ["xavier", "fan-in"])
def test_first_values_of_a_cell(init):
    model = build(two_memories("birnn", num_layers=2) | {"init": init}, VOCAB, VOCAB, 1)
    for n, layer in enumerate(model.extra_encoder.layers):
        fan_in, cell = (16 if n == 0 else 32) + 16, layer.recurrence.gru
        bound = (6 / (fan_in + 16)) ** 0.5 if init == "xavier" else fan_in**-0.5
        for weight in (cell.input, cell.state):
            assert 0.95 * bound < weight.abs().max() <= bound
        assert bool(cell.bias.any()) == (init == "fan-in")
