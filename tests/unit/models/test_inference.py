"""Prepared linear maps: the same function, every variant, and nothing left behind."""

import pytest
import torch

import models.inference
from benchmarks.switches import without
from models.cache import Cache
from models.inference import PrecisionError, find_maker, prepared
from models.transformer import build
from tests.unit.models.model_cases import DEFAULTS, VOCAB, batch, beams, config, fresh, full, tiny

PLAIN = ("connection", "residual", "pre")
CLOSE = {"fp32": 0.999999, "bf16": 0.999, "int8": 0.999}
CLOSE_DELTA = 0.998
"""In int8: `delta` reads the direction of a sub-layer's output alone, which rounding to 8 bits turns where the output is short."""


def steps(model, src, tgt):
    with torch.no_grad():
        encoded, cache = model.encode(src), Cache()
        hidden = torch.cat([model.decode(tgt[:, t : t + 1], encoded, cache) for t in range(tgt.shape[1])], dim=1)
        return model.logits(hidden)


@pytest.mark.parametrize("case", DEFAULTS, ids="-".join)
def test_prepared_decoding_equals_the_full_forward(case):
    """By words, and for each hypothesis of a beam. The tests of every variant decode every option without prepared maps."""
    model = tiny(case)
    src, tgt = batch()
    with torch.no_grad():
        want = model.logits(full(case))
    for precision in CLOSE:
        with prepared(model, precision):
            got = steps(model, src, tgt)
        if precision == "fp32":
            torch.testing.assert_close(got, want, atol=5e-5, rtol=1e-4)
        close = CLOSE_DELTA if precision == "int8" and case[0] == "residual" and case[1].startswith("delta") else CLOSE[precision]
        assert torch.nn.functional.cosine_similarity(got.flatten(), want.flatten(), dim=0) > close, precision
    with torch.no_grad(), prepared(model):
        for step, whole in beams(model):
            torch.testing.assert_close(step, whole, atol=5e-5, rtol=1e-4)


@pytest.mark.parametrize("own", [{"kind": "value_residual", "share": True}, {"kind": "layer_memory"}, {"kind": "depth_values"}], ids=str)
def test_layers_read_values_of_others_in_packed_sources(own):
    """Heads of 16 numbers go to C. Layer 1 has one product for q, k and v; later layers have three inputs, or no map of values."""
    side = {"num_layers": 3, "self_attention": own} | ({} if "share" in own else {"residual": {"kind": "deep_cross_attention"}})
    model = build(config("pre", num_heads=1, encoder=side), VOCAB, VOCAB).eval()
    with torch.no_grad():
        want = model.logits(model(*batch()).hidden)
    with prepared(model):
        torch.testing.assert_close(steps(model, *batch()), want, atol=5e-5, rtol=1e-4)


@pytest.mark.parametrize("precision", ["fp32", "bf16", "int8"])
def test_nothing_is_left_of_it(precision):
    model = fresh(PLAIN)
    src, tgt = batch()
    names = [set(m.__dict__) for m in model.modules()]
    state = {name: value.clone() for name, value in model.state_dict().items()}
    with torch.no_grad():
        before = model(src, tgt).hidden
    with pytest.raises(KeyError), prepared(model, precision):
        assert set(model.state_dict()) == set(state)
        raise KeyError
    assert [set(m.__dict__) for m in model.modules()] == names
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    with torch.no_grad():
        assert torch.equal(model(src, tgt).hidden, before)
    model.train()
    model(src, tgt).hidden.sum().backward()
    assert all(p.grad is not None for n, p in model.named_parameters() if n != "output.weight" and n != "output.bias")


def test_one_inside_another_packs_nothing_anew_and_leaves_the_outer_one():
    model = fresh(PLAIN)
    src, tgt = batch()
    with prepared(model):
        want, forward = steps(model, src, tgt), model.output.forward
        with prepared(model):
            assert model.output.forward is forward
        with pytest.raises(PrecisionError, match=r"^precision bf16: found a model that is prepared for fp32"), prepared(model, "bf16"):
            pass
        assert model.output.forward is forward
        assert torch.equal(steps(model, src, tgt), want)
    assert not {"forward", "prepared_as"} & set(model.output.__dict__) | {"prepared_as"} & set(model.__dict__)


@pytest.mark.parametrize("shape", [(5, 40), (33, 64), (33, 2100)])
def test_8_bit_maps_without_a_compiler_are_those_in_c(shape):
    outputs, inputs = shape
    linear, x = torch.nn.Linear(inputs, outputs), torch.randn(7, 3, inputs)
    with torch.no_grad():
        with prepared(linear, "int8"):
            found = linear(x)
        with without("native"), prepared(linear, "int8"):
            torch.testing.assert_close(linear(x), found, atol=1e-5, rtol=1e-6)


def test_int8_elsewhere_is_one_line():
    with pytest.raises(PrecisionError, match=r"^precision int8: found device meta; expected a CPU"):
        find_maker("int8", torch.device("meta"))


def test_without_the_library_torchs_own_products_are_used(monkeypatch):
    monkeypatch.setattr(models.inference.torch.backends.mkldnn, "is_available", lambda: False)
    model = fresh(PLAIN)
    src, tgt = batch()
    for precision in CLOSE:
        with prepared(model, precision):
            assert torch.isfinite(steps(model, src, tgt)).all()
