"""A decoder layer's step in one call: the numbers of the layer's own modules, bit by bit, and what is left to those."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from models import build, inference, native
from models.cache import Cache
from models.decoder_step import DecoderStep, stands_alone
from models.inference import prepared
from models.native.decoder import DecoderLayer
from models.paths import PATHS

if not native.available():
    pytest.skip("no C compiler: decoding runs on torch's operations alone", allow_module_level=True)


def model_of(**changes):
    config = {"d_model": 64, "d_ff": 96, "num_heads": 2, "encoder": {"num_layers": 1}, "decoder": {"num_layers": 2}}
    return build(config | changes, 70, 70, 1).eval()


def decoded(model, beam: int) -> list[Tensor]:
    """Every layer's output and what it attended to, over steps in which rows widen, are reordered and leave."""
    generator = torch.Generator().manual_seed(3)
    src = torch.randint(4, 70, (5, 21), generator=generator)
    for row, length in enumerate((21, 3, 17, 16, 1)):
        src[row, length:] = 0
    seen: list[Tensor] = []
    encoded, cache, B, width = model.encode(src), Cache(), 5, 1
    for step in range(12):
        tokens = torch.randint(4, 70, (B * width, 2 if step == 3 else 1), generator=generator)
        hidden, history = model._decode(tokens, encoded, cache)
        seen += [hidden, *history.outputs[1:], *history.attended[1:]]
        sentences = torch.tensor([0, 2, 3]) if step == 6 else torch.arange(B)
        parents = torch.randint(0, width, (len(sentences), beam), generator=generator)
        if len(sentences) < B:
            encoded = encoded.select(sentences)
            cache.select(sentences)
        cache.reorder((sentences[:, None] * width + parents).flatten())
        B, width = len(sentences), beam
    return [t.clone() for t in seen]


@pytest.fixture
def calls(monkeypatch) -> list[int]:
    """One entry for each call of C."""
    made, real = [], DecoderLayer.__call__
    monkeypatch.setattr(DecoderLayer, "__call__", lambda self, *given: made.append(1) or real(self, *given))
    return made


@pytest.mark.parametrize("precision", ["fp32", "int8"])
@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize(("heads", "beam"), [(1, 1), (2, 5), (4, 3)])
def test_a_layer_in_one_call_is_the_layer_bit_by_bit(monkeypatch, calls, precision, norm, heads, beam):
    model, found = model_of(norm=norm, num_heads=heads), []
    with torch.inference_mode():
        for one_call in (True, False):
            if not one_call:
                monkeypatch.setattr(inference, "stands_alone", lambda module: False)
            with prepared(model, precision, beam=beam):
                found.append(decoded(model, beam))
    assert len(calls) == 24, "the layers' own modules were to be compared"
    assert len(found[0]) > 50 and all(map(torch.equal, *found))


def test_layers_between_which_a_connection_combines_run_in_c_too(calls):
    model = model_of(decoder={"num_layers": 2, "connection": {"kind": "dlcl"}}, norm="pre")
    with torch.inference_mode(), prepared(model):
        found = decoded(model, 2)
    with torch.inference_mode(), PATHS.without("native"):
        expected = decoded(model, 2)
    assert calls == [1] * 24
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    "decoder",
    [
        {"self_attention": {"kind": "relative", "k": 3}},
        {"self_attention": {"kind": "multi_layer", "k": 2}},
        {"cross_attention": {"kind": "multistep"}},
        {"residual": {"kind": "laurel"}},
    ],
)
def test_a_layer_of_other_components_keeps_its_own_forward(calls, decoder):
    model = model_of(decoder={"num_layers": 2, **decoder}, **({"bridge": {"kind": "multistep"}} if "cross_attention" in decoder else {}))
    assert not any(stands_alone(module) for module in model.modules())
    with torch.inference_mode(), prepared(model):
        decoded(model, 1)
    assert not calls


@pytest.mark.parametrize("changes", [{"activation": "gelu"}, {"d_model": 24, "num_heads": 3}])
def test_what_c_has_no_form_for_is_left_to_the_layer(calls, changes):
    model = model_of(**changes)
    with torch.inference_mode(), prepared(model):
        decoded(model, 1)
    assert not calls


def test_the_layer_answers_where_c_does_not_run(calls):
    """While attention maps are collected, without a cache, in bf16, with the path taken out, and after the block."""
    model, src = model_of(), torch.tensor([[5, 6, 3]])
    tokens = torch.tensor([[2, 7]])
    with torch.inference_mode():
        expected = model.decode(tokens, model.encode(src))
        with prepared(model):
            maps: list = []
            found = model.decode(tokens, model.encode(src), Cache(), trace=maps)
            torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
            assert maps
            torch.testing.assert_close(model.decode(tokens, model.encode(src)), expected, atol=1e-5, rtol=1e-5)
            with PATHS.without("native"):
                model.decode(tokens, model.encode(src), Cache())
        with prepared(model, "bf16"):
            model.decode(tokens, model.encode(src), Cache())
    assert not calls
    assert not any(isinstance(module.__dict__.get("forward"), DecoderStep) for module in model.modules())
