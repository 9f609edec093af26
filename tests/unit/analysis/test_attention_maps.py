"""Cross-attention maps of the top decoder layer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from models.attention import attention_weights
from orchestrator.analysis.files import write
from orchestrator.analysis.kinds.attention_maps import analyse, attention_map, top_cross_attention
from orchestrator.decoding.beam import BOS
from orchestrator.decoding.translate import pad
from orchestrator.errors import UserError


@pytest.mark.slow
def test_weights_of_a_position_add_up_to_one(lab: Any, tmp_path: Path) -> None:
    context = lab.context("attention-maps", "base", "hier", options=["sentences=0,5"])
    made = analyse(context)
    sums: dict[Any, float] = {}
    for r in made.records:
        place = (r["row"], r["sentence"], r["position"])
        sums[place] = sums.get(place, 0.0) + r["weight"]
    assert all(total == pytest.approx(1.0, abs=1e-4) for total in sums.values())
    assert {place[:2] for place in sums} == {(f"demo/small/{row}", i) for row in ("base", "hier") for i in (0, 5)}
    assert len(made.summary) == 4 and set(write(made, context, tmp_path)) == {"json", "csv", "png", "svg", "pdf"}


def test_tokens_are_those_of_the_source_and_of_the_translation(lab: Any) -> None:
    context = lab.context("attention-maps", "hier", options=["sentences=2"])
    made = analyse(context)
    sources = [r["source_token"] for r in made.records if r["position"] == 0]
    targets = [r["token"] for r in made.records if r["source_position"] == 0]
    texts = lab.prepared.sources("test")[2], context.decoded(context.subjects[0])["hypotheses"][2]
    for tokens, text, side in zip((sources, targets), texts, ("src", "tgt"), strict=True):
        assert tokens == [*lab.prepared.decode_tokens(lab.prepared.encode([text], side), side)[0].split(), "</s>"]


def test_it_is_the_mean_over_heads_of_the_top_layer(lab: Any) -> None:
    """Against the layer's own maps: query of what it reads, keys of the encoder's states."""
    context = lab.context("attention-maps", "base")
    model = context.model(context.subjects[0])
    attention = top_cross_attention(model)
    assert attention is model.decoder.layers[-1].cross_attention.attention
    source, target = lab.prepared.pairs("test")[3]
    seen: list[Any] = []
    hook = attention.query.register_forward_hook(lambda module, given, made: seen.append(made))
    with torch.no_grad():
        encoded = model.encode(pad([source]))
        model.decode(torch.tensor([[BOS, *target]]), encoded)
        key = attention.key(encoded.memories[-1][0].keys)
    hook.remove()
    split = [x.unflatten(-1, (2, 8)).transpose(1, 2) for x in (seen[0], key)]
    expected = attention_weights(*split, None)[0].mean(0)
    found = attention_map(model, attention, source, target)
    assert found.shape == (len(target) + 1, len(source) + 1)
    assert torch.allclose(found, expected, atol=1e-6)


def test_of_two_attentions_the_one_over_the_encoder_is_shown(lab: Any) -> None:
    """A gated sub-layer: Att_h is its own `attention`, wherever another one stands."""
    context = lab.context("attention-maps", "base")
    model = context.model(context.subjects[0])
    cross = model.decoder.layers[-1].cross_attention
    modules = dict(cross._modules)
    cross._modules.clear()
    cross._modules.update({"context_attention": model.decoder.layers[0].cross_attention.attention} | modules)
    assert top_cross_attention(model) is modules["attention"]


def test_what_cannot_be_looked_at(lab: Any, own: Any) -> None:
    with pytest.raises(UserError, match="found 40; expected numbers below 40"):
        analyse(lab.context("attention-maps", "base", options=["sentences=0,40"]))
    context = lab.context("attention-maps", "base")
    model = context.model(context.subjects[0])
    model.decoder.layers[-1].cross_attention = None
    assert top_cross_attention(model) is None
