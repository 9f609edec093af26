"""Documents as sentences: where sentences stand, HIERTRANS against its equation, and that what a sentence's states depend on is itself."""

import torch

from models.attention import padding_bias
from models.embedding import sinusoids
from models.site import Flow
from models.transformer import build
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


@torch.no_grad()
def test_equals_the_equation():
    """Each sentence alone through the encoder, s_i its end state, g = Transformer(s + position), memory LN(w_ij + g_i)."""
    model = build(config("pre", bridge={"kind": "hierarchical_document", "doc_layers": 2}), VOCAB, VOCAB, 3).eval()
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
    states = model.encode(torch.zeros((2, 3), dtype=torch.long)).memories[0][0].keys
    assert states.shape[:2] == (2, 3) and states.isfinite().all(), "nothing to read"
