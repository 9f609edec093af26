"""Batches of similar lengths, in an order that says nothing of length."""

from __future__ import annotations

import itertools

import numpy as np

from orchestrator.data.batching import Batches
from orchestrator.data.store import Pairs
from orchestrator.specs.schema import BatchSpec


def test_short_and_long_batches_come_mixed_and_otherwise_in_each_epoch():
    lengths = np.arange(1, 61)
    offsets = np.concatenate(([0], lengths.cumsum()))
    words = np.full(int(lengths.sum()), 5, np.uint16)
    batches = Batches(Pairs(words, offsets, words, offsets), BatchSpec(unit="sentences", size=3), 1)
    longest = [[int(lengths[batch].max()) for batch in batches.epoch(epoch)] for epoch in (0, 1)]
    for order in longest:
        assert len(order) == 20
        # of shuffled ones about half of the neighbours rise: all or none is 1 in 10^17
        assert 3 <= sum(a < b for a, b in itertools.pairwise(order)) <= 16
    assert longest[0] != longest[1]
