"""The nll of given translations under teacher forcing, sentence by sentence: on a test set the most sensitive of all metrics.

Shapes: B sentences, S source, T target, P real target positions, V target vocabulary.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn.functional import cross_entropy

from orchestrator.data.subword import BOS, PAD
from orchestrator.decoding.translate import batches, pad

BATCH_TOKENS = 2048
"""Maximum of padded source and of padded target tokens per batch; a single sentence may be longer."""


@torch.inference_mode()
def reference_nll(model: Any, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[list[float]] | None:
    """[sum of nll in nats, number of tokens] of each target given its source, EOS counted, in input order. Ids have no BOS and EOS. None if
    a sentence is longer than the learned positions."""
    device, most = next(model.parameters()).device, getattr(model, "max_positions", None)
    lengths = [max(len(source), len(target), 1) for source, target in zip(sources, targets, strict=True)]  # an empty pair has EOS
    if most is not None and 1 + max(lengths, default=0) > most:
        return None
    found: list[list[float]] = [[] for _ in lengths]
    for rows in batches(lengths, BATCH_TOKENS, len(lengths)):
        tgt_out_BT = pad([targets[i] for i in rows]).to(device)
        tgt_in_BT = torch.cat([torch.full_like(tgt_out_BT[:, :1], BOS), tgt_out_BT[:, :-1]], 1).masked_fill(tgt_out_BT == PAD, PAD)
        hidden_PD = model(pad([sources[i] for i in rows]).to(device), tgt_in_BT).real_hidden()
        nll_P = cross_entropy(model.logits(hidden_PD).float(), tgt_out_BT[tgt_out_BT != PAD], reduction="none").double().cpu()
        for row, part in zip(rows, nll_P.split([len(targets[i]) + 1 for i in rows]), strict=True):
            found[row] = [float(part.sum()), len(part)]
    return found
