"""Heads and groups of layers: predictions, losses and search by their equations, their sizes, and where they may stand."""

from typing import Any

import pytest
import torch

from models.transformer import build
from orchestrator.decoding.beam import beam_search
from orchestrator.specs.schema import DecodeSpec
from tests.unit.models.model_cases import NO_DROPOUT, VOCAB, batch, config


def model_of(norm: str = "pre", head: dict[str, Any] | None = None, layers: int = 4, **encoder):
    sides = {"encoder": {"num_layers": 4} | encoder, "decoder": {"num_layers": layers}}
    return build(config(norm, **sides, **({} if head is None else {"head": head})) | NO_DROPOUT, VOCAB, VOCAB, 1)


def losses_by_hand(logits, gold, smoothing=0.1):
    """-sum_v q_v log p_v over positions, of logits [P, V]."""
    q = torch.full_like(logits, smoothing / (logits.shape[1] - 1)).scatter_(1, gold[:, None], 1 - smoothing)
    return -(q * logits.log_softmax(-1)).sum()


@pytest.mark.parametrize("size", [1, 2])
@torch.no_grad()
def test_an_encoder_returns_the_norm_of_its_groups_mean(size):
    model = model_of(aggregation={"kind": "groups", "size": size}).eval()
    aggregation = model.encoder.aggregation
    aggregation.weight.add_(torch.randn(aggregation.weight.shape, generator=torch.Generator().manual_seed(1)))
    history = model(*batch()).encoder
    states = [history.outputs[(g + 1) * size] for g in range(4 // size)]
    want = sum(torch.sigmoid(w) * x for w, x in zip(aggregation.weight, states, strict=True)) / len(states)
    torch.testing.assert_close(model.encode(batch()[0]).memories[0][0].keys, aggregation.norm(want), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_each_group_of_a_decoder_predicts(norm):
    model = model_of(norm, {"kind": "groups"}).eval()
    head, (src, tgt) = model.head, batch()
    head.weight.data += torch.tensor([1.0, -2.0])
    output = model(src, tgt)
    states = [head.norm(x) for x in output.decoder.outputs[2::2]]
    u = (head.weight / 4.0).softmax(0)
    logits = [model.output(h) for h in states]
    want = sum(w * z.log_softmax(-1) for w, z in zip(u, logits, strict=True))
    torch.testing.assert_close(model.logits(output.hidden), want, atol=1e-5, rtol=1e-4)
    gold = torch.randint(4, VOCAB, tgt.shape, generator=torch.Generator().manual_seed(2))
    loss, nll = model.loss(output.real_hidden(), gold.flatten(), 0.1)
    torch.testing.assert_close(loss, sum(w * losses_by_hand(z.flatten(0, 1), gold.flatten()) for w, z in zip(u, logits, strict=True)))
    torch.testing.assert_close(nll, -want.gather(-1, gold[..., None]).sum())
    loss.backward()
    assert head.weight.grad.abs().min() > 0


@torch.no_grad()
def test_hard_fusion_predicts_from_source_words_too():
    """By one head over the encoder's output, whose values are the scaled words."""
    model = model_of(head={"kind": "surface_fusion", "gate": 0.7}).eval()
    src, tgt = batch()
    got, a, memory = model(src, tgt).hidden, model.head.attention, model.encode(src).memories[0][0].keys
    values = model.src_embedding.words.weight[src] * 4.0 + model.src_embedding.bias
    q, k, v = a.query(got[..., :16]), a.key(memory), a.value(values)
    scores = (q @ k.transpose(1, 2) / 4.0).masked_fill((src == 0)[:, None], -1e9)
    e = a.output(scores.softmax(-1) @ v)
    torch.testing.assert_close(got[..., 16:], e, atol=1e-5, rtol=1e-4)
    want = 0.7 * model.output(got[..., :16]).log_softmax(-1) + 0.3 * model.output(e).log_softmax(-1)
    torch.testing.assert_close(model.logits(got), want, atol=1e-5, rtol=1e-4)


def test_a_gate_of_one_is_the_plain_model_and_nothing_below_learns_through_the_fusion():
    model, plain = model_of(head={"kind": "surface_fusion"}).eval(), model_of().eval()
    src, tgt = batch()
    model.head.gate = 1.0
    got, want = (m.logits(m(src, tgt).hidden).log_softmax(-1) for m in (model, plain))
    torch.testing.assert_close(got, want, atol=1e-5, rtol=1e-4)
    model(src, tgt).hidden[..., 16:].square().sum().backward()
    learns = {name.split(".")[0] for name, p in model.named_parameters() if p.grad is not None and p.grad.any()}
    assert learns == {"head", "src_embedding"}


@pytest.mark.parametrize("head", [{"kind": "groups"}, {"kind": "groups", "size": 1}, {"kind": "surface_fusion"}])
@torch.no_grad()
def test_a_beam_finds_hypotheses_with_the_models_own_log_probabilities(head):
    model = model_of(head=head).eval()
    src, _ = batch()
    spec = DecodeSpec(beam_size=3, max_extra=3, length_penalty={"kind": "none"})
    for i, one in enumerate(beam_search(model, src, spec)):
        tgt = torch.tensor([[2, *one.ids]])
        log_p = model.logits(model(src[i : i + 1], tgt).hidden)[0].log_softmax(-1)
        total = sum(float(row[token]) for row, token in zip(log_p, [*one.ids, 3], strict=True))
        assert total == pytest.approx(one.logprob, abs=1e-3)
