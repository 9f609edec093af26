"""Rules of the search in numbers written out by hand."""

import math

import pytest
import torch

from models import native
from models.transformer import build
from orchestrator.decoding.beam import EOS, beam_search, length_limit
from orchestrator.decoding.candidates import Candidates
from orchestrator.decoding.translate import FullLength, pad
from orchestrator.specs.schema import DecodeSpec


@pytest.mark.parametrize(
    ("ratio", "extra", "most", "source", "limit"),
    [
        (1.5, 3, None, 7, 13), (2.0, 0, None, 5, 10), (1.0, 50, None, 4, 54), (0.5, 1, None, 5, 3), (2.0, 10, 12, 5, 12),
        (0.1, 0, None, 4, 1),
    ],
)  # fmt: skip
def test_the_limit_is_the_ratio_times_the_source_and_a_constant(ratio, extra, most, source, limit):
    """floor(max_ratio |X| + max_extra), at most max_length, at least 1."""
    assert length_limit(DecodeSpec(max_ratio=ratio, max_extra=extra, max_length=most), source) == limit


@pytest.mark.parametrize("in_c", [True, False])
def test_candidates_are_log_probabilities_and_what_may_not_be_chosen_keeps_its_share(monkeypatch, in_c):
    """EOS's own is told even where it may not be chosen, for a sentence at its limit."""
    if not in_c:
        monkeypatch.setattr(native, "runs_on", lambda *_: False)
    logits = torch.tensor([[1.0, 5.0, 2.0, 4.0, 0.5, 3.0, -1.0], [0.0, 1.0, 0.0, -2.0, 7.0, 6.0, 5.0]])
    with torch.inference_mode():
        words = Candidates(logits.clone(), torch.tensor([0, 2, 3]), torch.tensor([[1], [5]]), 3, 2)
        value, word, _ = words.best(exact=True)
    for row, best in enumerate(([5, 4], [4, 6])):
        total = sum(math.exp(z) for z in logits[row].tolist())
        log_p = [math.log(math.exp(z) / total) for z in logits[row].tolist()]
        assert float(words.eos.flatten()[row]) == pytest.approx(log_p[3], abs=1e-5)
        assert word[row, :2].tolist() == best
        assert value[row, :2].tolist() == pytest.approx([log_p[w] for w in best], abs=1e-5)


@pytest.mark.parametrize("beam", [1, 3])
def test_outputs_of_a_known_length_are_as_long_as_they_may_be(beam):
    model = build({"d_model": 16, "d_ff": 24, "num_heads": 2, "encoder": {"num_layers": 1}, "decoder": {"num_layers": 1}}, 9, 9, 1)
    for sign in (1.0, -1.0):  # an end is sure at some positions with the one, at the rest with the other
        with torch.no_grad():
            model.output.weight[EOS] = sign * 30.0 * model.output.weight[5]
        decode = DecodeSpec(beam_size=beam, max_ratio=1.0, max_extra=4)
        found = beam_search(FullLength(model.eval()), pad([[4, 5], [6, 7, 8]]), decode)
        assert [len(hypothesis.ids) + 1 for hypothesis in found] == [3 + 4, 4 + 4]
