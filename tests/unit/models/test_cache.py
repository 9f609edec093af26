"""Cells and the table of who sees them, against caches that are really reordered."""

import pytest
import torch
from torch import nn

from models.cache import HIDDEN, Cache


@pytest.mark.parametrize("seed", range(3))
def test_each_hypothesis_sees_its_own_past_and_nothing_else(seed):
    """Random parents, growing beams, sentences that leave: what a row sees, in order of time, is what moving every key would give."""
    generator = torch.Generator().manual_seed(seed)
    B, H, K = 4, 2, 3
    slots, cache = [nn.Identity(), nn.Identity()], Cache()
    width, pasts = 1, [torch.zeros(B, 0, H, K) for _ in slots]
    for step in range(30):
        length = 2 if step == 3 else 1
        cache.begin(B * width, length, B, torch.device("cpu"))
        bias = cache.bias()
        for slot, past in zip(slots, list(pasts), strict=True):
            new = torch.randn(B * width, length, H, K, generator=generator)
            pasts[slots.index(slot)] = whole = torch.cat((past, new), dim=1)
            cells, twice = cache.extend(slot, new, 2 * new)
            assert torch.equal(twice, 2 * cells)
            assert bias is None or bias.shape == (B, 1, width * length, cells.shape[2])
            now, times = cache.times()
            assert now.tolist() == [list(range(cache.length, cache.length + length)) * width]
            for row in range(B * width):
                for t in range(length):
                    seen, when = cells[row // width], times[0]
                    if bias is not None:
                        mask = bias[row // width, 0, (row % width) * length + t]
                        assert set(mask.tolist()) <= {0.0, HIDDEN}
                        seen, when = seen[:, mask == 0], when[mask == 0]
                    assert when.tolist() == list(range(cache.length + t + 1))
                    assert torch.equal(seen.transpose(0, 1), whole[row, : whole.shape[1] - length + t + 1])
        cache.length += length
        wider = 1 if step < 1 else 5
        sentences = torch.arange(B) if step not in (9, 20) else torch.arange(B)[torch.arange(B) != 1]
        parents = torch.randint(0, width, (len(sentences), wider), generator=generator)
        hypotheses = (sentences[:, None] * width + parents).flatten()
        cache.reorder(hypotheses)
        if len(sentences) < B:
            cache.select(sentences)
        B, width, pasts = len(sentences), wider, [past[hypotheses] for past in pasts]
