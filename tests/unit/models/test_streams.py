"""Residuals whose stream is several tensors: each against its equation and its start, and what may stand beside them."""

import copy
import itertools
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from models.residuals.depth_attention import DepthMix, State
from models.residuals.hyper import normed_product, read_streams, write_streams
from models.residuals.manifold import sinkhorn
from models.transformer import build
from tests.unit.models.model_cases import VOCAB, batch, off_start
from tests.unit.models.residual_cases import both, hidden, model_of, sublayer, x_and_y


@pytest.mark.parametrize("options", [{}, {"dynamic": False}, {"tanh": False}, {"stream_norm": "rms"}])
def test_hyper_connections_mix_streams_by_their_equation(options):
    one, (_, y) = off_start(sublayer(kind="hyper", streams=3, **options)), x_and_y()
    s, r, seen = torch.randn(2, 3, 3, 8, generator=torch.Generator().manual_seed(3)), one.residual, []
    got = one(s, lambda q: seen.append(q) or y)
    for b in range(2):
        for t in range(3):
            c = []
            for a in range(3):
                h = s[b, t, a]
                if options.get("dynamic", True):
                    rms = h / (h.square().mean() + 1e-6).sqrt() * r.gain if "stream_norm" in options else None
                    normed = (h - h.mean()) / (h.var(unbiased=False) + 1e-6).sqrt() if rms is None else rms
                    z = normed @ r.weight if "tanh" in options else torch.tanh(normed @ r.weight)
                    c.append(r.static[a] + z * torch.tensor([r.scale[0]] * 4 + [r.scale[1]]))
                else:
                    c.append(r.static[a])
            x = sum(c[a][0] * s[b, t, a] for a in range(3))
            torch.testing.assert_close(seen[0][b, t], one.norm(x), atol=1e-5, rtol=1e-4)
            for new in range(3):
                want = sum(c[a][1 + new] * s[b, t, a] for a in range(3)) + c[new][-1] * y[b, t]
                torch.testing.assert_close(got[b, t, new], want, atol=1e-5, rtol=1e-4)


def test_sub_layers_take_turns_in_what_stream_they_read_first():
    def firsts(**options):
        layers = model_of("pre", **options).decoder.layers
        return [s.residual.first for l in layers for s in (l.self_attention.sublayer, l.cross_attention.sublayer, l.sublayer)]

    assert firsts(kind="hyper", streams=4) == [0, 1, 2, 3] * 3
    assert firsts(kind="hyper", streams=3, first="layer") == [0] * 3 + [1] * 3 + [2] * 3 + [0] * 3
    assert firsts(kind="manifold_hyper", streams=5) == [i % 5 for i in range(12)]


@pytest.mark.parametrize(
    "options",
    [
        {}, {"dynamic": False}, {"positive": "sigmoid", "post_scale": 1.0}, {"manifold": "permutations"}, {"manifold": "identity"},
        {"manifold": "identity", "start": "identity"},
    ],
)  # fmt: skip
def test_manifold_hyper_connections_by_their_equation(options):
    one, (_, y) = off_start(sublayer(kind="manifold_hyper", streams=3, **options)), x_and_y()
    s, r, seen = torch.randn(2, 3, 3, 8, generator=torch.Generator().manual_seed(3)), one.residual, []
    got = one(s, lambda q: seen.append(q) or y)
    for b in range(2):
        for t in range(3):
            logits = r.bias
            if options.get("dynamic", True):
                v = s[b, t].flatten()
                raw = (v / (v.square().mean() + 1e-6).sqrt()) @ r.phi
                logits = torch.cat([scale * part for scale, part in zip(r.scale, raw.split((3, 3, len(raw) - 6)), strict=False)]) + r.bias
            pre, post = 1 / (1 + (-logits[:3]).exp()), options.get("post_scale", 2.0) / (1 + (-logits[3:6]).exp())
            if options.get("manifold") == "identity":
                m = torch.eye(3)
            elif "manifold" in options:
                share, m = logits[6:].exp() / logits[6:].exp().sum(), torch.zeros(3, 3)
                for p, order in zip(share, itertools.permutations(range(3)), strict=True):
                    for a in range(3):
                        m[a, order[a]] += p
            else:
                m = (logits[6:].exp() if "positive" not in options else 1 / (1 + (-logits[6:]).exp())).view(3, 3)
                for _ in range(20):
                    m = m / m.sum(0)
                    m = m / m.sum(1)[:, None]
            torch.testing.assert_close(seen[0][b, t], one.norm(pre @ s[b, t]), atol=1e-5, rtol=1e-4)
            torch.testing.assert_close(got[b, t], m @ s[b, t] + post[:, None] * y[b, t], atol=1e-5, rtol=1e-4)


def test_the_mixing_matrix_is_doubly_stochastic():
    logits = 3 * torch.randn(200, 16, generator=torch.Generator().manual_seed(1))
    for last, exact in (("rows", -1), ("columns", -2)):
        m = sublayer(kind="manifold_hyper", last=last).residual.mixing(logits)
        margins = {axis: (m.sum(axis) - 1).abs().max() for axis in (-1, -2)}
        assert margins[exact] < 1e-6 and margins[-3 - exact] < 4e-2
        assert torch.linalg.matrix_norm(m, 2).max() < 1.005
    exact_m = sublayer(kind="manifold_hyper", manifold="permutations").residual.mixing(torch.cat((logits, logits[:, :8]), 1))
    assert max((exact_m.sum(axis) - 1).abs().max() for axis in (-1, -2)) < 1e-6


@pytest.mark.parametrize("manifold", ["sinkhorn", "permutations"])
def test_mhc_may_start_near_the_identity(manifold):
    for place in (1, 2):
        r = sublayer(kind="manifold_hyper", start="identity", manifold=manifold, place=place).residual
        assert not r.phi.any() and r.bias[:8].tolist() == [1.0 if i % 4 == place - 1 else -1.0 for i in range(8)]
        assert (r.mixing(r.bias[8:]) - torch.eye(4)).abs().max() < 0.01


def test_depth_attention_by_its_equation_and_without_norms_of_values():
    r = off_start(sublayer(kind="depth_attention", place=3)).residual
    v = torch.randn(2, 3, 3, 8, generator=torch.Generator().manual_seed(4))
    got = r.mix(v.unbind(-2))
    for b in range(2):
        for t in range(3):
            scores = [float(r.query @ (r.gain * h / (h.square().mean() + 1e-6).sqrt())) for h in v[b, t]]
            shares = [math.exp(z) / sum(map(math.exp, scores)) for z in scores]
            torch.testing.assert_close(got[b, t], sum(a * h for a, h in zip(shares, v[b, t], strict=True)), atol=1e-5, rtol=1e-4)
    louder = v * torch.tensor([1.0, 5.0, 1.0])[:, None]
    torch.testing.assert_close(r.shares(louder), r.shares(v), atol=1e-5, rtol=1e-4)
    assert torch.equal(sublayer(kind="depth_attention", place=3).residual.shares(v), torch.full((2, 3, 3), 1 / 3))
    sigmoid = sublayer(kind="depth_attention", place=3, weights="sigmoid").residual
    assert torch.equal(sigmoid.shares(v), torch.full((2, 3, 3), 0.5))


def test_sources_of_blocks():
    full, one_each = (off_start(model_of("pre", 2, kind="depth_attention", blocks=blocks)) for blocks in (0, 6))
    assert {n: p.shape for n, p in full.named_parameters()} == {n: p.shape for n, p in one_each.named_parameters()}
    assert torch.equal(hidden(full), hidden(one_each))

    def numbers(**options):
        model = model_of("pre", 4, kind="depth_attention", weights="scalars", **options)
        return [len(p) for n, p in model.encoder.named_parameters() if n.endswith("logits")]

    assert numbers() == [2, 3, 4, 5, 6, 7, 8, 9]
    assert numbers(blocks=2) == [2, 2, 2, 2, 3, 3, 3, 3], "h_0, then the partial sum too; at the end h_0 and two blocks"
    assert numbers(sources="states", final="top") == [2, 3, 4, 5, 6, 7, 8]


def test_running_states_are_sources():
    a, b = sublayer(kind="depth_attention", sources="states", final="top"), sublayer(kind="depth_attention")
    x, y = x_and_y()
    assert torch.equal(a.residual.write(State((x,)), y, x, a.dropout).sources[1], x + y)
    assert torch.equal(b.residual.write(State((x,)), y, x, b.dropout).sources[1], y)


@pytest.mark.parametrize(
    "options", [{}, {"sources": "states", "final": "top"}, {"kind": "multi_head_depth_attention"}, {"kind": "delta_depth_attention"}]
)
def test_sources_kept_once_give_the_equations_loss_and_gradients(options, monkeypatch):
    """Against the plain form in double precision."""
    config = both("pre", 3, **{"kind": "depth_attention"} | options) | {"dropout": {"residual": 0.0, "embedding": 0.0}}
    model = off_start(build(config, VOCAB, VOCAB, 1))
    exact = copy.deepcopy(model).double()
    monkeypatch.setattr(torch.Tensor, "float", torch.Tensor.double)
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    grads = [gradients(exact)]
    monkeypatch.undo()
    grads += [gradients(model), gradients(model)]
    for name, want in grads[0].items():
        for got in grads[1:]:
            torch.testing.assert_close(got[name].double(), want, atol=3e-5, rtol=1e-4, msg=lambda m, n=name: f"{n}: {m}")
    with torch.no_grad():
        torch.testing.assert_close(model(*batch()).hidden.double(), exact(*batch()).hidden, atol=1e-5, rtol=1e-4)


def gradients(model) -> dict[str, torch.Tensor]:
    model.zero_grad()
    model(*batch()).hidden.square().sum().backward()
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def test_reads_without_a_gradient_leave_that_of_the_others():
    """x_3 is not used: what lies above and below it gets its gradients all the same, twice from one graph."""
    generator = torch.Generator().manual_seed(9)
    v, u = (torch.randn(4, 5, 8, generator=generator, dtype=torch.double, requires_grad=True) for _ in range(2))
    found = []
    for kept in (None, DepthMix(4, 1e-6)):
        x, above = [], None
        placed = list(v) if kept is None else [kept.put(each, j) for j, each in enumerate(v)]
        for j in (2, 3, 4):
            if kept is None:
                keys = v[:j] * (v[:j].square().mean(-1, keepdim=True) + 1e-6).rsqrt()
                x.append(((keys @ u[j - 1, 0]).softmax(0)[..., None] * v[:j]).sum(0))
            else:
                one, above = kept.read(u[j - 1, 0], j, above, *placed[j - 1 if j > 2 else 0 : j])
                x.append(one)
        loss = x[0].square().sum() + x[2].pow(3).sum()
        found.append([*torch.autograd.grad(loss, (v, u), retain_graph=True), *torch.autograd.grad(loss, (v, u))])
    for want, got in zip(*found, strict=True):
        torch.testing.assert_close(got, want, atol=1e-10, rtol=1e-8)


@pytest.mark.parametrize("dynamic", [True, False])
def test_mudd_mixes_layers_four_ways(dynamic):
    one = off_start(sublayer(kind="mudd", layer=2, dynamic=dynamic))
    r, (x_0, x_1) = one.residual, x_and_y()
    seen: list[torch.Tensor] = []
    state = one(((x_0,), x_1), lambda q, k, v: seen.extend((q, k, v)) or x_0)
    for b in range(2):
        for t in range(3):
            weights = r.static
            if dynamic:
                h = x_1[b, t] / (x_1[b, t].square().mean() + 1e-6).sqrt()
                inner = torch.tensor([float(z) * (1 + math.erf(float(z) / 2**0.5)) / 2 for z in h @ r.inner])
                weights = weights + (inner @ r.outer).view(4, 2)
            ways = [w[0] * x_0[b, t] + w[1] * x_1[b, t] for w in weights]
            for got, norm, way in zip(seen, (one.norm, *one.others), ways[:3], strict=True):
                torch.testing.assert_close(got[b, t], norm(way), atol=1e-5, rtol=1e-4)
            torch.testing.assert_close(state[1][b, t], ways[3] + x_0[b, t], atol=1e-5, rtol=1e-4)
    assert len(state[0]) == 2


@pytest.mark.parametrize("last", [0, 1])
def test_deep_cross_attention_by_its_equation(last):
    one = off_start(sublayer(kind="deep_cross_attention", layer=4, last=last))
    r, g = one.residual, torch.randn(4, 2, 3, 8, generator=torch.Generator().manual_seed(6))
    got = r.mix(tuple(g))
    sources = [g[0], g[1] + g[2], g[3]] if last else list(g)
    for c in range(3):
        want = sum((r.weight[c, j] + torch.relu(h @ r.gate[c])[..., None]) * h for j, h in enumerate(sources))
        torch.testing.assert_close(got[c], want, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("kind", ["hyper", "manifold_hyper", "depth_attention", "mudd", "deep_cross_attention", "delta"])
def test_coefficients_and_streams_are_fp32_under_autocast(kind):
    model = off_start(model_of("pre", kind=kind))
    with torch.autocast("cpu", torch.bfloat16):
        history = model(*batch()).encoder
    tensors = [t for s in history.outputs[1:] for t in torch.utils._pytree.tree_leaves(s) if isinstance(t, torch.Tensor)]
    mixed = [layer.sublayer.residual.read(history.outputs[1])[0].dtype for layer in model.encoder.layers[1:2]]
    assert set(mixed) == {torch.float32}
    assert kind == "depth_attention" or {t.dtype for t in tensors} == {torch.float32}


def numbers(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=torch.double, requires_grad=True)


PRODUCTS: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {
    "rms": (lambda s, w: normed_product(s, w, 1e-3), (numbers(2, 3, 5), numbers(5, 2))),
    "centred": (lambda s, w: normed_product(s, w, 1e-3, centred=True), (numbers(2, 3, 5), numbers(5, 2))),
    "read": (read_streams, (numbers(2, 3, 5), numbers(2, 3))),
    "write": (write_streams, (numbers(2, 3, 5), numbers(2, 3, 3), numbers(2, 3), numbers(2, 5))),
    "rows": (lambda r: sinkhorn(r, 3, (-2, -1)), (numbers(2, 3, 3),)),
    "columns": (lambda r: sinkhorn(r, 2, (-1, -2)), (numbers(3, 3),)),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_gradients_of_products_of_streams(name, monkeypatch):
    """Numerically; and the plain form, which compilers are given, has the same values."""
    function, inputs = PRODUCTS[name]
    assert torch.autograd.gradcheck(function, inputs)
    found = function(*inputs)
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    torch.testing.assert_close(function(*inputs), found)


def test_sinkhorn_of_logits_far_apart():
    """exp(-300) is 0 in fp32, so that a row, a column or both of exponentials vanish; the balanced matrix and its gradient do not."""
    for far in ([0], [slice(None), 0], [[0, 1], [1, 0]]):
        logits = torch.randn(4, 4, generator=torch.Generator().manual_seed(1))
        logits[tuple(far)] -= 300.0
        logits.requires_grad_()
        found = sinkhorn(logits, 20, (-2, -1))
        assert torch.isfinite(torch.autograd.grad(found[0, 0] + found[1, 2], logits)[0]).all()
        balanced = logits.detach().double()
        for axis in 20 * (-2, -1):
            balanced = balanced - balanced.logsumexp(axis, keepdim=True)
        torch.testing.assert_close(found.detach(), balanced.exp().float(), rtol=1e-4, atol=1e-6)
