"""Whole texts: batches, order, progress; and the real Transformer."""

import random

import pytest
import torch

from models.transformer import build
from orchestrator.decoding.beam import EOS
from orchestrator.decoding.translate import batch_limits, batches, decode_corpus
from orchestrator.errors import UserError
from orchestrator.specs.schema import DecodeSpec
from tests.unit.decoding.conftest import ToyModel

DECODE = DecodeSpec(beam_size=4, max_ratio=1.0, max_extra=3)


def sources(count, longest=12, vocab=20, seed=0):
    rng = random.Random(seed)
    return [[rng.randrange(4, vocab) for _ in range(rng.randint(1, longest))] for _ in range(count)]


def test_batches_hold_every_sentence_once_within_the_budget():
    lengths = [len(s) for s in sources(300, longest=40)] + [0, 500]
    groups = batches(lengths, batch_tokens=200, batch_sentences=16)
    assert sorted(i for g in groups for i in g) == [i for i, n in enumerate(lengths) if n]
    assert all(len(g) == 1 or len(g) * (max(lengths[i] for i in g) + 1) <= 200 for g in groups)
    assert max(map(len, groups)) <= 16
    assert [lengths[i] for g in groups for i in g] == sorted((n for n in lengths if n), reverse=True)
    assert groups == batches(lengths, batch_tokens=200, batch_sentences=16)


@pytest.mark.parametrize(
    ("beam", "device", "expected"),
    [(1, "cuda", [256, 44]), (5, "cuda", [102, 102, 96]), (1, "cpu", [48, 48, 4]), (5, "cpu", [32] * 3 + [4])],
)
def test_a_corpus_is_decoded_in_batches_of_its_beam(beam, device, expected):
    assert [len(rows) for rows in batches([1] * sum(expected), *batch_limits(beam, torch.device(device)))] == expected


def test_an_output_ends_where_the_learned_positions_end_and_a_longer_source_is_one_line():
    sizes = {"d_model": 8, "d_ff": 8, "num_heads": 2} | {side: {"num_layers": 1} for side in ("encoder", "decoder")}
    model = build(sizes | {"positions": "learned", "max_positions": 6}, 20, 20)
    with torch.no_grad():
        model.output.weight[EOS] = -100 * model.output.weight[EOS].abs() - 100
    for beam in (1, 3):
        (best,) = decode_corpus(model, [[4, 5]], DecodeSpec(beam_size=beam, max_extra=30))
        assert len(best.ids) <= 5  # and EOS
    assert len(decode_corpus(model, [[4, 5, 6, 7, 8]], DecodeSpec(beam_size=2))) == 1
    with pytest.raises(UserError, match=r"^decode: found a source of 7 subwords with its EOS; expected at most 6"):
        decode_corpus(model, [[4, 5], [4] * 6], DECODE)


def test_an_empty_source_is_an_empty_output():
    found = decode_corpus(ToyModel(vocab=20), [[], [4, 5], []], DECODE)
    assert found[0].ids == found[2].ids == [] and found[1].ids
    assert decode_corpus(ToyModel(vocab=20), [], DECODE) == []
