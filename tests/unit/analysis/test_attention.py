"""Attention of decoders that are forced on their translations: sums, tokens, and equality with the layers' own weights."""

from typing import Any

import pytest
import torch

from models.attention import attention_weights
from models.cache import Cache
from orchestrator.analysis.kinds.attention import attention, attention_maps, layer_attention, top_cross_attention
from orchestrator.decoding.beam import BOS
from orchestrator.decoding.translate import pad
from tests.unit.analysis.conftest import drawn
from tests.unit.conftest import refused

KINDS = {"attention-maps": attention_maps, "layer-attention": layer_attention}


@pytest.mark.parametrize(("kind", "hops"), [("attention-maps", [None]), ("layer-attention", [1, 2, 3])])
def test_weights_of_a_position_add_up_to_one(kind: str, hops: list[Any], lab) -> None:
    made = KINDS[kind](lab.context(kind, "hop3", options=["sentences=0,5"]))
    sums: dict[Any, float] = {}
    for r in made.records:
        place = (r["sentence"], r["position"], r.get("hop"))
        sums[place] = sums.get(place, 0.0) + r["weight"]
    assert all(total == pytest.approx(1.0, abs=1e-4) for total in sums.values())
    assert {place[0] for place in sums} - {"all"} == {0, 5} and {place[2] for place in sums} == set(hops)
    assert len(drawn(made).axes) == (3 if kind == "attention-maps" else 2 * 3 + 3 + 1), "maps, empty places and one bar"


@pytest.mark.parametrize("kind", KINDS)
def test_tokens_are_those_of_the_source_and_of_the_translation(kind: str, lab) -> None:
    context = lab.context(kind, "hop1", options=["sentences=2"])
    records = [r for r in KINDS[kind](context).records if r["sentence"] == 2]
    text = context.decoded(context.subjects[0])["hypotheses"][2]
    sides = [("tgt", text, [r["token"] for r in records if r.get("source_position", r.get("layer")) in (0, "l0")])]
    if kind == "attention-maps":
        sides.append(("src", lab.prepared.sources("test")[2], [r["source_token"] for r in records if r["position"] == 0]))
    for side, line, tokens in sides:
        assert tokens == [*lab.prepared.decode_tokens(lab.prepared.encode([line], side), side)[0].split(), "</s>"]


def test_cross_attention_is_that_of_the_top_layer(lab) -> None:
    """Against the layer's own maps: query of what it reads, keys of the encoder's states."""
    context = lab.context("attention-maps", "base")
    model = context.model(context.subjects[0])
    module = top_cross_attention(model)
    assert module is model.decoder.layers[-1].cross_attention.attention
    source, target = lab.prepared.pairs("test")[3]
    seen: list[Any] = []
    hook = module.query.register_forward_hook(lambda module, given, made: seen.append(made))
    with torch.no_grad():
        encoded = model.encode(pad([source]))
        model.decode(torch.tensor([[BOS, *target]]), encoded)
        key = module.key(encoded.memories[-1][0].keys)
    hook.remove()
    split = [x.unflatten(-1, (2, 8)).transpose(1, 2) for x in (seen[0], key)]
    ((_, found),) = attention(model, module, [source], [target])
    assert torch.allclose(found, attention_weights(*split, None)[0], atol=1e-6)


def test_batched_and_cached_passes_look_at_the_same_layers(lab) -> None:
    """The weights of a batch of padded sentences are those that the decoder has when it goes token by token; `all` is their mean."""
    context = lab.context("layer-attention", "hop3", options=["sentences=0"])
    model, texts = context.model(context.subjects[0]), context.decoded(context.subjects[0])["hypotheses"]
    sources, targets = lab.prepared.encode(lab.prepared.sources("test")), lab.prepared.encode(texts, "tgt")
    found = {i: a_TLP[: len(targets[i]) + 1] for i, a_TLP in attention(model, model.decoder.aggregation, sources, targets)}
    assert sorted(found) == list(range(len(sources)))
    for i in (0, 3):
        cache, steps = Cache(), []
        with torch.no_grad():
            encoded = model.encode(pad([sources[i]]))
            for token in [BOS, *targets[i]]:
                trace: list[Any] = []
                model.decode(torch.tensor([[token]]), encoded, cache, trace)
                steps += [a[0] for module, a in trace if module is model.decoder.aggregation]
        assert torch.allclose(torch.cat(steps), found[i], atol=1e-5)
    mean = torch.cat(list(found.values())).mean(0)
    for r in layer_attention(context).records:
        if r["sentence"] == "all":
            assert r["weight"] == pytest.approx(float(mean[int(r["layer"][1:]), r["hop"] - 1]), abs=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_not_there(kind: str, lab) -> None:
    assert "found 40; expected numbers below 40" in refused(KINDS[kind], lab.context(kind, "hop1", options=["sentences=0,40"]))[0]
    assert "demo/small/base: its decoder has no mlrf-self-attention" in refused(layer_attention, lab.context("layer-attention", "base"))[0]
