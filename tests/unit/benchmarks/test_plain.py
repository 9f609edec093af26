"""The plain opponent computes what ours computes, so the comparison is fair; and a slow search that finds what ours finds."""

import plain
import pytest
import torch
from sizes import SIZES, text

from models.transformer import build
from orchestrator.decoding.translate import decode_corpus
from orchestrator.specs.schema import DecodeSpec, LengthPenalty
from orchestrator.training.objective import Normalizer, Objective

SMOOTHING = 0.1


@pytest.fixture(params=["pre", "post"])
def pair(request):
    """(ours, plain) with the same weights, sharpened so that outputs differ between sources."""
    size = SIZES["tiny"]
    ours = build(size.model(norm=request.param, dropout=0.0), size.vocab, size.vocab, seed=3)
    with torch.no_grad():
        for parameter in ours.parameters():
            parameter.mul_(1.5)
    other = plain.PlainTransformer(size.vocab, size.d_model, size.d_ff, size.num_heads, size.layers, 0.0, pre=request.param == "pre")
    other.load(dict(ours.named_parameters()))
    return ours, other


def batch() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, int, int]:
    pairs = text(1000, 6, seed=5)
    pad = lambda rows: torch.tensor([[*r, *[0] * (max(map(len, rows)) - len(r))] for r in rows])  # noqa: E731
    src, out = pad([[*s, 3] for s, _ in pairs]), pad([[*t, 3] for _, t in pairs])
    return src, pad([[2, *t] for _, t in pairs]), out, int((src != 0).sum()), int((out != 0).sum())


def test_loss_and_gradients_equal_ours_to_rounding(pair) -> None:
    ours, other = pair
    src, tgt_in, tgt_out, src_tokens, tgt_tokens = batch()
    expected, _ = Objective(ours, SMOOTHING)(src, tgt_in, tgt_out, Normalizer(src_tokens, tgt_tokens, 1.0))
    # torch spreads its smoothing over the gold word too: eps V / (V - 1) there is eps here
    found = plain.loss(other, src, tgt_in, tgt_out, SMOOTHING * 1000 / 999)
    assert found.item() == pytest.approx(expected.item(), rel=1e-6)
    expected.backward()
    found.backward()
    gradients = {name: p.grad for name, p in ours.named_parameters()}
    theirs = {plain.our_name(name): parameter.grad for name, parameter in other.named_parameters()}
    difference = sum((theirs[name] - gradient).square().sum() for name, gradient in gradients.items())
    # not element by element: a ReLU at zero may fall on either side
    assert difference.sqrt() < 1e-3 * sum(gradient.square().sum() for gradient in gradients.values()).sqrt()
    assert theirs.keys() == gradients.keys()


def test_greedy_decoding_equals_ours_with_eos_out_of_reach(pair) -> None:
    ours, other = pair
    bias = torch.zeros(1000).index_fill_(0, torch.tensor([0, 2, 3]), -1e4)
    other.eval().bias, ours.output.bias = bias, torch.nn.Parameter(bias)
    sources = [source for source, _ in text(1000, 5, seed=8)]
    spec = DecodeSpec(beam_size=1, length_penalty=LengthPenalty(kind="none"), max_ratio=1e-6, max_extra=7)
    src = torch.tensor([[*s, 3, *[0] * (max(map(len, sources)) - len(s))] for s in sources])
    assert plain.beam_search(other, src, 1, 6) == [found.ids for found in decode_corpus(ours, sources, spec)]


def test_the_slow_search_finds_what_ours_finds(pair) -> None:
    ours, other = pair
    sources = [source for source, _ in text(1000, 5, seed=9)]
    spec = DecodeSpec(beam_size=3, length_penalty=LengthPenalty(kind="none"), max_ratio=1e-6, max_extra=9)
    expected = [found.ids for found in decode_corpus(ours, sources, spec)]
    assert [plain.search_one(other.eval(), source, 3, 9) for source in sources] == expected
