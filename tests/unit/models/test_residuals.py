"""Residuals: each against its equation and its start, their sizes, where they may stand."""

import itertools
import math

import pytest
import torch

from models.residuals.scaled import Admin, profile
from models.transformer import build
from tests.unit.models.model_cases import VOCAB, batch, config, off_start
from tests.unit.models.residual_cases import both, hidden, model_of, sublayer, x_and_y

SAME = [
    ("pre", {"kind": "laurel"}, 0.0), ("post", {"kind": "laurel", "rank": 3}, 0.0),
    ("pre", {"kind": "laurel", "rank": 3, "weights": False}, 0.0),
    ("post", {"kind": "admin"}, 0.0), ("pre", {"kind": "hyper"}, 2e-5), ("pre", {"kind": "hyper", "dynamic": False, "streams": 3}, 2e-5),
    ("post", {"kind": "hyper", "streams": 2}, 2e-5), ("pre", {"kind": "depth_attention"}, 5e-5),
    ("pre", {"kind": "depth_attention", "blocks": 3}, 5e-5), ("pre", {"kind": "depth_attention", "query": "input"}, 5e-5),
    ("pre", {"kind": "depth_attention", "weights": "scalars"}, 5e-5), ("pre", {"kind": "depth_attention", "weights": "sigmoid"}, 5e-5),
    ("pre", {"kind": "hyper", "reduce": "learned"}, 2e-5), ("post", {"kind": "hyper", "reduce": "learned", "dynamic": False}, 2e-5),
    ("pre", {"kind": "mudd", "norms": "printed"}, 2e-6), ("pre", {"kind": "mudd", "norms": "code"}, 2e-6), ("pre", {"kind": "mudd"}, 2e-6),
    ("post", {"kind": "mudd"}, 2e-6), ("pre", {"kind": "mudd", "ways": 1, "dynamic": False}, 2e-6),
    ("pre", {"kind": "deep_cross_attention", "gate_start": "zero"}, 2e-5),
    ("pre", {"kind": "deep_cross_attention", "gate_start": "zero", "last": 1}, 2e-5), ("pre", {"kind": "fractions"}, 2e-6),
    ("pre", {"kind": "delta_depth_attention"}, 0.0), ("pre", {"kind": "multi_head_depth_attention", "heads": 2}, 5e-5),
]  # fmt: skip


@pytest.mark.parametrize(("norm", "residual", "error"), SAME)
def test_it_starts_as_the_plain_network(norm, residual, error):
    torch.testing.assert_close(hidden(model_of(norm, **residual)), hidden(model_of(norm, kind="plain")), atol=error, rtol=error)
    assert not torch.equal(hidden(off_start(model_of(norm, **residual))), hidden(model_of(norm, kind="plain")))


@pytest.mark.parametrize("zero", [False, True])
def test_rezero_starts_as_the_identity_and_has_no_norms(zero):
    """Maps of zero behind a factor of zero would never learn: `zero_residual` leaves them."""
    model = build(both("pre", kind="rezero") | {"zero_residual": zero}, VOCAB, VOCAB, 1)
    assert not [name for name, _ in model.named_parameters() if "norm" in name]
    output = model(*batch())
    assert torch.equal(output.encoder.outputs[0], output.encoder.outputs[-1])
    output.hidden.square().sum().backward()
    grads = {name: p.grad for name, p in model.decoder.layers.named_parameters()}
    assert all(bool(grad.any()) == ("scale" in name) for name, grad in grads.items() if grad is not None)


def test_rezero_adds_a_share_of_the_function():
    one, (x, y) = sublayer(kind="rezero"), x_and_y()
    one.residual.scale.alpha.fill_(0.25)
    torch.testing.assert_close(one(x, lambda q: q + y), x + 0.25 * (x + y))
    kept = sublayer("post", kind="rezero", norms="keep")
    torch.testing.assert_close(kept(x, lambda q: y), kept.norm(x))


@pytest.mark.parametrize(
    ("layers", "encoder", "decoder"), [((6, 6), (1.418, 0.497), (2.060, 0.343)), ((18, 6), (1.866, 0.378), (2.060, 0.343))]
)
def test_deepnorms_constants(layers, encoder, decoder):
    sides = {side: {"num_layers": n, "residual": {"kind": "deepnorm"}} for side, n in zip(("encoder", "decoder"), layers, strict=True)}
    model, plain = (
        build(config("post", **{s: sides[s] | r for s in sides}) | {"zero_residual": zero}, VOCAB, VOCAB, 1)
        for r, zero in (({}, True), ({"residual": {"kind": "plain"}}, False))
    )
    for side, (alpha, beta) in (("encoder", encoder), ("decoder", decoder)):
        layer, other = getattr(model, side).layers[0], getattr(plain, side).layers[0]
        assert layer.sublayer.residual.alpha == pytest.approx(alpha, abs=5e-4)
        for (name, p), q in zip(layer.named_parameters(), other.parameters(), strict=True):
            scaled = name.endswith(("value.weight", "output.weight", "inner.weight", "outer.weight"))
            torch.testing.assert_close(p, q * (beta if scaled else 1.0), atol=1e-4, rtol=2e-3)
    x, y = x_and_y()
    one = sublayer("post", kind="deepnorm")
    torch.testing.assert_close(one(x, lambda q: y), one.norm(one.residual.alpha * x + y))
    one.residual.alpha = 1.0
    assert torch.equal(one(x, lambda q: y), sublayer("post", kind="plain")(x, lambda q: y))


@pytest.mark.parametrize("zero", [False, True])
def test_admins_factors_come_from_the_variances_of_a_batch(zero, monkeypatch):
    """`zero_residual` would leave nothing to measure: it does not touch these sub-layers."""
    settings = {"dropout": dict.fromkeys(("embedding", "residual", "attention", "ffn"), 0.0), "zero_residual": zero}
    model = build(both("post", kind="admin") | settings, VOCAB, VOCAB, 1).requires_grad_(False)
    profile(model, *batch())
    assert all(p.eq(p[0]).all() for name, p in model.named_parameters() if name.endswith("omega"))
    seen, write = [], Admin.write

    def recorded(self, s, y, x, drop):
        seen.append((self, s, y))
        return write(self, s, y, x, drop)

    monkeypatch.setattr(Admin, "write", recorded)
    with torch.no_grad():
        model(*batch())
    for stack in (seen[:8], seen[8:]):
        assert torch.equal(stack[0][0].omega, torch.ones(16))
        for (one, s, y), (after, _, _) in itertools.pairwise(stack):
            assert y.any()
            total = float(y.var(unbiased=False)) + float((one.omega * s).var(unbiased=False))
            assert float(after.omega[3]) == pytest.approx(total**0.5, rel=1e-4)
    assert len(seen) == 8 + 12


def test_laurel_weighs_both_terms_and_adds_a_low_rank_map():
    one, (x, y) = off_start(sublayer(kind="laurel", rank=3)), x_and_y()
    l = [float(v) for v in one.residual.logits]
    a, b = (math.exp(v) / sum(map(math.exp, l)) for v in l)
    low = x @ one.residual.inner.weight.T @ one.residual.outer.weight.T
    torch.testing.assert_close(one(x, lambda q: y), 2.0 * (a * y + b * (x + low)))


def test_delta_replaces_the_streams_part_along_the_functions_output():
    """x' = (I - beta k k^T) x + beta v k, token by token; the matrix has the eigenvalues 1 and 1 - beta."""
    one, (x, y) = off_start(sublayer(kind="delta")), x_and_y()
    r, got = one.residual, one(x, lambda q: y)
    for b in range(2):
        for t in range(3):
            k = y[b, t] / y[b, t].norm()
            beta = 2 * torch.sigmoid(r.step @ one.norm(x)[b, t] + r.step_bias)
            v = 4 * torch.sigmoid(r.value @ x[b, t] + r.value_bias)
            matrix = torch.eye(8) - beta * torch.outer(k, k)
            eigenvalues = torch.cat((torch.ones(7), 1 - beta)).sort().values
            torch.testing.assert_close(torch.linalg.eigvalsh(matrix).sort().values, eigenvalues, atol=1e-5, rtol=1e-4)
            torch.testing.assert_close(got[b, t], matrix @ x[b, t] + beta * v * k, atol=1e-5, rtol=1e-4)
    r.step_bias.fill_(-100.0)
    torch.testing.assert_close(one(x, lambda q: y), x)


def test_every_sub_layer_of_a_layer_has_a_residual():
    two = {"bridge": {"kind": "extra"}, "extra_encoder": {"kind": "biarn", "steps": 3}}
    stacked = {"num_layers": 2, "cross_attention": {"kind": "stacked"}, "residual": {"kind": "laurel"}}
    model = build(config("pre", decoder=stacked, encoder={"num_layers": 2, "residual": {"kind": "laurel"}}, **two), VOCAB, VOCAB, 1)
    names = [name for name, _ in model.named_parameters() if name.endswith("logits")]
    assert len(names) == 2 * 2 + 2 * 3 + 1, "the recurrent encoder's sub-layers keep x + y"
