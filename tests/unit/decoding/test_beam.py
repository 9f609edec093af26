"""The search itself: against a slow transcription, which a wide beam makes exhaustive, and its promises one by one."""

import math

import pytest

from orchestrator.decoding.beam import EOS, PAD, beam_search, length_penalty
from orchestrator.decoding.translate import pad
from orchestrator.specs.schema import DecodeSpec, LengthPenalty
from tests.unit.decoding.conftest import ToyModel, slow_beam

PENALTIES = [("gnmt", 0.6), ("exponent", 1.0), ("exponent", 1.6), ("none", 0.0)]


def spec(beam, kind="gnmt", alpha=0.6, ratio=1.0, extra=2, **more):
    return DecodeSpec(beam_size=beam, length_penalty=LengthPenalty(kind=kind, alpha=alpha), max_ratio=ratio, max_extra=extra, **more)


def blocking(beam, ngram, extra=6, **more):
    return spec(beam, "exponent", 1.0, 1.5, extra, no_repeat_ngram=ngram, **more)


SOURCES = [[4, 5], [6], [5, 4, 6, 4], [6, 6, 5], [4], [5, 5, 5, 4, 4, 6]]


def close(found, expected):
    assert (found.ids, found.score) == (expected[1], pytest.approx(expected[0], abs=1e-5))


@pytest.mark.parametrize(("kind", "alpha"), PENALTIES)
@pytest.mark.parametrize("beam", [1, 2, 3, 5, 8, 45])
def test_equals_the_slow_transcription(kind, alpha, beam):
    """An early end loses nothing: the transcription has none."""
    for seed, sharpness in ((0, 2.0), (1, 2.0), (2, 6.0), (3, 6.0)):
        model, decode = ToyModel(vocab=9, seed=seed, sharpness=sharpness), spec(beam, kind, alpha, ratio=1.5, extra=3)
        for source, found in zip(SOURCES, beam_search(model, pad(SOURCES), decode), strict=True):
            close(found, slow_beam(model, [*source, EOS], decode)[0])


def test_an_output_is_empty_only_where_nothing_else_fits():
    model = ToyModel(seed=2)
    for beam in (1, 3):
        assert [h.ids for h in beam_search(model, pad([[4, 5]]), spec(beam, ratio=0.1, extra=0))] == [[]]


@pytest.mark.parametrize("beam", [1, 4])
def test_finished_sentences_leave_the_batch(beam):
    model, decode = ToyModel(seed=0), spec(beam, ratio=1.0, extra=0)
    model.bias.data[EOS] = -30.0  # every sentence runs to its limit
    sources = [[4] * n for n in (1, 2, 3, 12)]
    beam_search(model, pad(sources), decode)
    assert model.rows[0] == len(sources), "the first step needs one row a sentence"
    assert model.rows[1] == len(sources) * beam
    assert model.rows[-1] <= beam < model.rows[1]
    assert model.rows[1:] == sorted(model.rows[1:], reverse=True)


def test_ties_go_to_the_lowest_index():
    model = ToyModel(vocab=40)
    model.out.data.zero_()  # every token equally likely
    for beam in (1, 2, 5):
        (found,) = beam_search(model, pad([[4, 5]]), spec(beam, "none", 0.0, ratio=1.0, extra=0))
        # UNK, 1, is the lowest id that may be generated; EOS, 3, comes second and is among the best of two
        assert found.ids == ([1, 1] if beam == 1 else [1])
        assert found.logprob == pytest.approx((3 if beam == 1 else 2) * math.log(1 / 40), abs=1e-5)


def test_penalties_count_the_eos():
    assert length_penalty(LengthPenalty(kind="gnmt", alpha=1.0), 1) == 1.0
    assert length_penalty(LengthPenalty(kind="gnmt", alpha=0.6), 7) == pytest.approx(2**0.6)
    assert length_penalty(LengthPenalty(kind="exponent", alpha=1.6), 10) == pytest.approx(10**1.6)
    assert length_penalty(LengthPenalty(kind="none", alpha=1.0), 10) == 1.0


def test_nan_is_an_error_and_the_mode_is_restored():
    model = ToyModel()
    model.out.data.fill_(float("nan"))
    for beam in (1, 3):
        with pytest.raises(FloatingPointError, match="NaN at step 1"):
            beam_search(model, pad([[4]]), spec(beam))
    assert model.training


def test_sources_end_with_eos_and_are_padded():
    assert pad([[4], [5, 6]]).tolist() == [[4, EOS, PAD], [5, 6, EOS]]


@pytest.mark.parametrize("ngram", [1, 2, 3])
@pytest.mark.parametrize("beam", [1, 2, 5])
def test_blocking_equals_the_slow_transcription(beam, ngram):
    blocked = 0
    for seed in range(3):
        model = ToyModel(vocab=6, seed=seed, sharpness=6.0)
        free = beam_search(model, pad(SOURCES), blocking(beam, 0))
        for source, found, other in zip(SOURCES, beam_search(model, pad(SOURCES), blocking(beam, ngram)), free, strict=True):
            close(found, slow_beam(model, [*source, EOS], blocking(beam, ngram))[0])
            blocked += found.ids != other.ids
            grams = [tuple(found.ids[i : i + ngram]) for i in range(len(found.ids) - ngram + 1)]
            assert len(set(grams)) == len(grams)
    assert blocked, "nothing was blocked: the case proves nothing"
