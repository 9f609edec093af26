"""Documents as sentences: where sentences stand, HIERTRANS against its equation, and that what a sentence's states depend on is itself."""

from __future__ import annotations

import pytest
import torch

from models import build
from models.attention import padding_bias
from models.embedding import sinusoids
from models.packing import Sentences
from models.site import Flow
from tests.unit.models.model_cases import VOCAB, config

DOCUMENTS = torch.tensor(
    [
        [5, 6, 3, 7, 8, 9, 3, 4, 5, 3],
        [5, 3, 6, 7, 3, 0, 0, 0, 0, 0],
        [9, 8, 7, 6, 0, 0, 0, 0, 0, 0],  # no end at all: one sentence
        [3, 3, 4, 3, 0, 0, 0, 0, 0, 0],  # empty sentences are sentences
    ]
)
SPLIT = [[[5, 6, 3], [7, 8, 9, 3], [4, 5, 3]], [[5, 3], [6, 7, 3]], [[9, 8, 7, 6]], [[3], [3], [4, 3]]]


def hierarchical(norm="pre", **more):
    model = build(config(norm, bridge={"kind": "hierarchical_document", "doc_layers": 2}, **more), VOCAB, VOCAB, 3)
    return model.eval()


def test_rows_are_the_sentences():
    found = Sentences(DOCUMENTS, apart=True)
    flat = [sentence for document in SPLIT for sentence in document]
    assert [
        [i for i, real in zip(row, mask, strict=True) if real]
        for row, mask in zip(found.rows.tolist(), found.row_mask.tolist(), strict=True)
    ] == flat
    assert found.counts.tolist() == [3, 2, 1, 3]
    assert DOCUMENTS[DOCUMENTS != 0][found.ends].tolist() == [s[-1] for s in flat]
    whole = Sentences(DOCUMENTS, apart=False)
    assert [p for p, real in zip(whole.positions.flatten().tolist(), whole.mask.flatten().tolist(), strict=True) if real] == [
        place for sentence in flat for place in range(len(sentence))
    ]


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("train", [False, True])
def test_sentences_as_rows_and_documents_with_a_mask_are_one_model(monkeypatch, norm, train):
    model = hierarchical(norm, dropout={"embedding": 0.0, "residual": 0.0}).train(train)
    target = torch.randint(4, VOCAB, (len(DOCUMENTS), 5), generator=torch.Generator().manual_seed(1))
    found = []
    for apart in (True, False):
        monkeypatch.setattr(model, "_sentences", lambda src, apart=apart: Sentences(src, apart=apart))
        model.zero_grad()
        output = model(DOCUMENTS, target)
        output.real_hidden().square().sum().backward()
        found.append((output.real_hidden().detach(), {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}))
    torch.testing.assert_close(found[0][0], found[1][0], atol=2e-5, rtol=1e-4)
    assert found[0][1].keys() == found[1][1].keys()
    for name, gradient in found[0][1].items():
        torch.testing.assert_close(gradient, found[1][1][name], atol=2e-3, rtol=2e-3, msg=name)


@torch.no_grad()
def test_equals_the_equation():
    """Each sentence alone through the encoder, s_i its end state, g = Transformer(s + position), memory LN(w_ij + g_i)."""
    model = hierarchical()
    memory = model.encode(DOCUMENTS).memories[0][0]
    for row, sentences in enumerate(SPLIT):
        states = []
        for sentence in sentences:
            ids = torch.tensor([sentence])
            mask = torch.ones_like(ids, dtype=torch.bool)
            states.append(model.encoder(model.src_embedding(ids), Flow(mask=mask, bias=padding_bias(mask)))[0][0])
        s = torch.stack([w[-1] for w in states])[None]
        mask = torch.ones(s.shape[:2], dtype=torch.bool)
        bridge = model.bridge
        g = bridge.document(s + sinusoids(0, s.shape[1], s.shape[2], s.device), Flow(mask=mask, bias=padding_bias(mask)))[0][0]
        expected = torch.cat([bridge.norm(w + g_i) for w, g_i in zip(states, g, strict=True)])
        torch.testing.assert_close(memory.keys[row, : len(expected)], expected, atol=2e-5, rtol=1e-4)
        assert memory.mask[row].sum() == len(expected)


def test_a_long_sentence_among_many_is_not_paid_by_all():
    """Rows are sentences only where that multiplies less."""
    short = torch.randint(4, VOCAB, (4, 60))
    short[:, 9::10] = 3
    assert Sentences(short, 100).apart
    long = short.clone()
    long[0] = 5
    assert not Sentences(long, 100).apart


def test_nothing_to_read():
    with torch.no_grad():
        states = hierarchical().encode(torch.zeros((2, 3), dtype=torch.long)).memories[0][0].keys
    assert states.shape[:2] == (2, 3) and states.isfinite().all()
