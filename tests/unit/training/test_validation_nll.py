"""The nll of validation, whose logits are made chunk by chunk."""

import pytest
import torch
from torch.nn import functional as F

from models.loss import CHUNK
from models.transformer import PAD, build
from orchestrator.training.objective import token_nll

VOCABULARY = 1009


@pytest.mark.parametrize("bf16", [False, True], ids=["fp32", "bf16"])
@pytest.mark.parametrize("positions", [1, CHUNK, CHUNK + 1, 3 * CHUNK - 7])
def test_chunks_have_the_bits_of_the_whole(positions, bf16, monkeypatch):
    torch.manual_seed(positions)
    stack = {"num_layers": 1}
    model = build({"d_model": 64, "d_ff": 64, "num_heads": 2, "encoder": stack, "decoder": stack}, VOCABULARY, VOCABULARY)
    model.eval()
    length = 29  # sentences of unequal lengths with so many real target positions
    rows = -(-positions // length)
    src, tgt = torch.randint(4, VOCABULARY, (rows, 7)), torch.randint(4, VOCABULARY, (rows, length + 1))
    tgt_in, tgt_out = tgt[:, :-1].clone(), tgt[:, 1:].clone()
    last = positions - (rows - 1) * length
    tgt_in[-1, last:] = tgt_out[-1, last:] = PAD
    logits, sizes = model.logits, []
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=bf16):
        z, gold = logits(model(src, tgt_in).real_hidden()).float(), tgt_out[tgt_out != PAD]
        monkeypatch.setattr(model, "logits", lambda hidden: (sizes.append(len(hidden)), logits(hidden))[1])
        nll, right = token_nll(model, src, tgt_in, tgt_out)
    assert nll.item() == F.cross_entropy(z, gold, reduction="sum").item()
    assert right.item() == (z.argmax(-1) == gold).sum().item()
    assert sum(sizes) == positions and max(sizes) <= CHUNK
