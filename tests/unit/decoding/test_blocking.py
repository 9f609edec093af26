"""Trigram blocking and the longest output: against the slow searches, and off by default."""

from __future__ import annotations

import pytest
import torch

from orchestrator.decoding.beam import EOS, _Search, beam_search, length_limit, repeated
from orchestrator.decoding.translate import pad
from orchestrator.specs.schema import DecodeSpec, LengthPenalty

SOURCES = [[4, 5], [6], [5, 4, 6, 4], [6, 6, 5], [4], [5, 5, 5, 4, 4, 6]]


def spec(beam, ngram, extra=6, **more):
    penalty = LengthPenalty(kind="exponent", alpha=1.0)
    return DecodeSpec(beam_size=beam, length_penalty=penalty, max_ratio=1.5, max_extra=extra, no_repeat_ngram=ngram, **more)


def close(found, expected):
    assert [h.ids for h in found] == [ids for _, ids in expected]
    assert [h.score for h in found] == pytest.approx([score for score, _ in expected], abs=1e-5)


@pytest.mark.parametrize("ngram", [1, 2, 3])
@pytest.mark.parametrize("beam", [1, 2, 5])
def test_equals_the_slow_transcription(toy, search_slowly, beam, ngram):
    blocked = 0
    for seed in range(3):
        model = toy(vocab=6, seed=seed, sharpness=6.0)
        free = beam_search(model, pad(SOURCES), spec(beam, 0))
        for source, found, other in zip(SOURCES, beam_search(model, pad(SOURCES), spec(beam, ngram)), free, strict=True):
            close(found, search_slowly(model, [*source, EOS], spec(beam, ngram))[:1])
            blocked += found[0].ids != other[0].ids
            grams = [tuple(found[0].ids[i : i + ngram]) for i in range(len(found[0].ids) - ngram + 1)]
            assert len(set(grams)) == len(grams)
    assert blocked, "nothing was blocked: the case proves nothing"


def test_a_wide_beam_is_exhaustive_search(toy, search_exhaustively):
    model = toy(vocab=6, seed=1)
    for source in ([4, 5], [5]):
        decode = spec(60, 1, extra=1)
        (found,) = beam_search(model, pad([source]), decode, nbest=5)
        close(found, search_exhaustively(model, [*source, EOS], decode)[:5])


def test_greedy_is_beam_one(toy):
    for seed in range(3):
        model, decode = toy(vocab=6, seed=seed, sharpness=6.0), spec(1, 2)
        with torch.inference_mode():
            search = _Search(model, pad(SOURCES), decode, 1)
            search.beam()
        assert beam_search(model, pad(SOURCES), decode) == search.hypotheses()


@pytest.mark.parametrize("beam", [1, 3])
def test_max_length_bounds_every_output(toy, search_slowly, beam):
    model = toy(vocab=9, seed=2)
    decode = spec(beam, 3, max_length=4)
    assert length_limit(decode, 100) == 4 and length_limit(spec(1, 0, extra=0, max_length=50), 4) == 6
    for source, found in zip(SOURCES, beam_search(model, pad(SOURCES), decode), strict=True):
        assert len(found[0].ids) <= 3
        close(found, search_slowly(model, [*source, EOS], decode)[:1])


def test_repeated_names_each_completion():
    history = torch.tensor([[5, 6, 7, 8, 5, 6, 9, 5, 6], [4, 4, 4, 4, 4, 4, 4, 4, 4]])
    assert [set(row.tolist()) - {0} for row in repeated(history, 3)] == [{7, 9}, {4}]
    assert repeated(history[:, :2], 3).shape == (2, 0)
    assert set(repeated(history[:1], 1)[0].tolist()) == {5, 6, 7, 8, 9}
