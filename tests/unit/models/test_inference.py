"""Prepared linear maps: the same function, every variant, and nothing left behind."""

import pytest
import torch

import models.inference
from benchmarks.switches import without
from models import Cache
from models.inference import PrecisionError, check_precision, prepared
from tests.unit.models.model_cases import PRE, batch, fresh, full, tiny

PLAIN = ("connection", "residual", "pre")
CLOSE = {"fp32": 0.999999, "bf16": 0.999, "int8": 0.999}
every_component = pytest.mark.parametrize("case", [case for case in PRE if " " not in case[1]], ids="-".join)
"""Each component with its defaults. The tests of every variant decode every option without prepared maps."""

CLOSE_DELTA = 0.998
"""In int8: `delta` reads the direction of a sub-layer's output alone, which rounding to 8 bits turns where the output is short."""


def steps(model, src, tgt):
    with torch.no_grad():
        encoded, cache = model.encode(src), Cache()
        hidden = torch.cat([model.decode(tgt[:, t : t + 1], encoded, cache) for t in range(tgt.shape[1])], dim=1)
        return model.logits(hidden)


@every_component
def test_prepared_decoding_equals_the_full_forward(case):
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
        with prepared(model, "bf16"):
            assert model.output.forward is not forward
        assert model.output.forward is forward
        assert torch.equal(steps(model, src, tgt), want)
    assert not {"forward", "prepared_as"} & set(model.output.__dict__) | {"prepared_as"} & set(model.__dict__)


@every_component
def test_beams_share_cells_as_the_full_forward_of_each_hypothesis(case):
    """Three hypotheses a sentence with parents that change, sources with much padding, sentences that leave; oneDNN's products, where
    they are, and not: each row's step is that of its own tokens without a cache."""
    model = tiny(case)
    src = torch.randint(4, 20, (3, 9), generator=torch.Generator().manual_seed(1))
    src[1, 3:], src[2, 2:] = 0, 0
    tgt = torch.randint(4, 20, (9, 5), generator=torch.Generator().manual_seed(2))
    with torch.no_grad(), prepared(model):
        encoded, cache = model.encode(src), Cache()
        rows = torch.cat((torch.full((3, 1), 2), tgt[::3, :1]), dim=1)[:, :1]
        place = torch.arange(3)
        model.decode(rows, encoded, cache)
        cache.reorder(place.repeat_interleave(3))
        rows = rows.repeat_interleave(3, 0)
        for t in range(5):
            if t == 3:  # the second sentence leaves
                kept, rows_kept = torch.tensor([0, 2]), torch.tensor([0, 1, 2, 6, 7, 8])
                encoded, place = encoded.select(kept), place[kept]
                cache.reorder(rows_kept)
                cache.select(kept)
                rows, tgt = rows[rows_kept], tgt[rows_kept]
            rows = torch.cat((rows, tgt[:, t : t + 1]), dim=1)
            got = model.decode(rows[:, -1:], encoded, cache)[:, -1]
            want = model(src[place].repeat_interleave(3, 0), rows).hidden[:, -1]
            torch.testing.assert_close(got, want, atol=5e-5, rtol=1e-4)
            parents = torch.arange(0, len(rows), 3).repeat_interleave(3) + torch.tensor([0, 0, 1]).repeat(len(place))
            cache.reorder(parents)
            rows = rows[parents]


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
        check_precision("int8", torch.device("meta"))


def test_without_the_library_torchs_own_products_are_used(monkeypatch):
    monkeypatch.setattr(models.inference.torch.backends.mkldnn, "is_available", lambda: False)
    model = fresh(PLAIN)
    src, tgt = batch()
    for precision in CLOSE:
        with prepared(model, precision):
            assert torch.isfinite(steps(model, src, tgt)).all()
