"""Layer attention of trained decoders: its shape, its sums, its tokens, the mean over the test set."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from models.cache import Cache
from orchestrator.analysis.kinds.layer_attention import analyse, attention
from orchestrator.analysis.subwords import pieces
from orchestrator.decoding.beam import BOS
from orchestrator.decoding.translate import pad
from orchestrator.errors import UserError


def test_weights_of_a_position_add_up_to_one(lab: Any) -> None:
    made = analyse(lab.context("layer-attention", "hop3", options=["sentences=0,5"]))
    sums: dict[Any, float] = {}
    for r in made.records:
        place = (r["sentence"], r["position"], r["hop"])
        sums[place] = sums.get(place, 0.0) + r["weight"]
    assert all(total == pytest.approx(1.0, abs=1e-4) for total in sums.values())
    assert {place[0] for place in sums} == {0, 5, "all"} and {place[2] for place in sums} == {1, 2, 3}
    assert [r["layer"] for r in made.records[:3]] == ["l0", "l1", "l2"], "two layers and the words below them"


def test_tokens_are_those_of_the_translation(lab: Any) -> None:
    context = lab.context("layer-attention", "hop1", options=["sentences=2"])
    made = analyse(context)
    tokens = [r["token"] for r in made.records if r["sentence"] == 2 and r["layer"] == "l0"]
    assert tokens[-1] == "</s>"
    assert prepared_text(lab, context.decoded(context.subjects[0])["hypotheses"][2]) == tokens[:-1]


def prepared_text(lab: Any, line: str) -> list[str]:
    return str(lab.prepared.decode_tokens(lab.prepared.encode([line], "tgt"), "tgt")[0]).split()


def test_batched_and_cached_passes_look_at_the_same_layers(lab: Any) -> None:
    """The weights of a batch of padded sentences are those that the decoder has when it goes token by token."""
    context = lab.context("layer-attention", "hop3")
    model = context.model(context.subjects[0])
    sources, targets = (
        lab.prepared.encode(lab.prepared.sources("test"))[:6],
        lab.prepared.encode(lab.prepared.references("test")[0], "tgt")[:6],
    )
    found = dict(attention(model, sources, targets))
    assert sorted(found) == list(range(6))
    for i in (0, 3):
        cache, steps = Cache(), []
        with torch.no_grad():
            encoded = model.encode(pad([sources[i]]))
            for token in [BOS, *targets[i]]:
                trace: list[Any] = []
                model.decode(torch.tensor([[token]]), encoded, cache, trace)
                steps += [a[0] for module, a in trace if module is model.decoder.aggregation]
        assert torch.allclose(torch.cat(steps), found[i], atol=1e-5)


def test_the_mean_is_over_all_positions(lab: Any) -> None:
    context = lab.context("layer-attention", "hop3", options=["sentences=0"])
    made = analyse(context)
    model, texts = context.model(context.subjects[0]), context.decoded(context.subjects[0])["hypotheses"]
    every = [a for _, a in attention(model, lab.prepared.encode(lab.prepared.sources("test")), lab.prepared.encode(texts, "tgt"))]
    mean = torch.cat(every).mean(0)
    for r in made.records:
        if r["sentence"] == "all":
            assert r["weight"] == pytest.approx(float(mean[int(r["layer"][1:]), r["hop"] - 1]), abs=1e-4)
    assert len(made.summary) == 3


def test_pieces_of_words_are_marked() -> None:
    class Subwords:
        """5 "ab", 6 "c" (goes on), 7 "d"."""

        def decode_tokens(self, lines: list[list[int]], side: str) -> list[str]:
            words = {5: " ab", 6: "c", 7: " d"}
            return ["".join(words[i] for i in ids).strip() for ids in lines]

    prepared: Any = Subwords()
    assert pieces(prepared, [5, 6, 7, 5]) == ["ab@@", "c", "d", "ab"]
    assert pieces(prepared, []) == []


def test_what_cannot_be_looked_at(lab: Any) -> None:
    with pytest.raises(UserError, match="demo/small/base: its decoder has no mlrf-self-attention"):
        analyse(lab.context("layer-attention", "base"))
    with pytest.raises(UserError, match="found 40; expected numbers below 40"):
        analyse(lab.context("layer-attention", "hop1", options=["sentences=0,40"]))
    assert any("demo/small/base" in note for note in analyse(lab.context("layer-attention", "base", "hop1")).notes)
