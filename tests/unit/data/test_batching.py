import hashlib

import numpy as np
import pytest

from orchestrator.data.batching import Batches, collate
from orchestrator.data.store import Pairs
from orchestrator.specs.schema import BatchSpec

BOS, EOS = 2, 3


def made(count: int, longest: int = 30, seed: int = 0) -> Pairs:
    """Pairs of correlated lengths; ids are random, above the specials."""
    rng = np.random.default_rng(seed)
    src = rng.integers(1, longest + 1, count)
    tgt = np.clip(src + rng.integers(-3, 4, count), 1, None)
    offsets = [np.concatenate([[0], np.cumsum(n)]).astype(np.int64) for n in (src, tgt)]
    flat = [rng.integers(4, 60000, o[-1]).astype(np.uint16) for o in offsets]
    return Pairs(flat[0], offsets[0], flat[1], offsets[1])


PAIRS = made(2000)
UNITS = [BatchSpec(unit="tokens", size=700), BatchSpec(unit="sentences", size=48), BatchSpec(unit="tokens", size=5)]


@pytest.mark.parametrize("batch", UNITS, ids=lambda b: f"{b.unit}-{b.size}")
def test_every_pair_once_an_epoch(batch):
    for epoch in range(3):
        order = Batches(PAIRS, batch, 1).epoch(epoch)
        assert np.array_equal(np.sort(np.concatenate(order)), np.arange(2000))
        assert all(len(indices) for indices in order)


def test_token_budget_holds_on_both_sides_but_for_single_pairs():
    for indices in Batches(PAIRS, BatchSpec(size=200), 1).epoch(0):
        widest = max(PAIRS.src_lengths[indices].max(), PAIRS.tgt_lengths[indices].max()) + 1
        assert len(indices) * widest <= 200 or len(indices) == 1
    alone = [b for b in Batches(PAIRS, BatchSpec(size=20), 1).epoch(0) if PAIRS.tgt_lengths[b].max() >= 20]
    assert alone and all(len(indices) == 1 for indices in alone)


def test_a_batch_may_reach_the_budget_exactly():
    offsets = np.arange(0, 9 * 41, 9, dtype=np.int64)
    pairs = Pairs(np.full(9 * 40, 7, np.uint16), offsets, np.full(9 * 40, 7, np.uint16), offsets)
    assert [len(b) for b in Batches(pairs, BatchSpec(size=100), 1).epoch(0)] == [10] * 4, "EOS makes nine tokens ten"


def test_sentence_batches_are_full_but_one():
    sizes = sorted(len(indices) for indices in Batches(PAIRS, BatchSpec(unit="sentences", size=48), 1).epoch(0))
    assert sizes[1:] == [48] * 41 and sizes[0] == 2000 - 41 * 48


def test_order_depends_on_seed_and_epoch_alone():
    def cut(seed: int, epoch: int) -> list[list[int]]:
        return [b.tolist() for b in Batches(PAIRS, BatchSpec(size=700), seed).epoch(epoch)]

    np.random.seed(0)
    first = cut(1, 0)
    np.random.seed(1)
    assert cut(1, 0) == first
    assert cut(2, 0) != first and cut(1, 1) != first
    digest = hashlib.sha256(b"|".join(b.tobytes() for b in Batches(PAIRS, BatchSpec(size=700), 1).epoch(3))).hexdigest()
    assert digest == "ae745c1fe46e12db3eb72d5b801b3057d1d21b3a776483519fc61885f41101e9", "the same on every machine"
    together = {frozenset(b) for b in first}
    assert sum(frozenset(b) in together for b in cut(1, 1)) < len(first) / 4, "epochs cut afresh, not only shuffle"


@pytest.mark.parametrize("least", [1, 16])
def test_collate_is_the_obvious_loop(least):
    for indices in Batches(PAIRS, BatchSpec(size=300), 1).epoch(0)[:40]:
        pairs = [PAIRS[i] for i in indices.tolist()]
        batch = collate(PAIRS, indices, least=least)
        sides = [[*a, EOS] for a, _ in pairs], [[BOS, *b] for _, b in pairs], [[*b, EOS] for _, b in pairs]
        for tensor, rows in zip((batch.src, batch.tgt_in, batch.tgt_out), sides, strict=True):
            width = max(least, *map(len, rows))
            assert tensor.tolist() == [row + [0] * (width - len(row)) for row in rows] and str(tensor.dtype) == "torch.int64"


def test_collate_of_nothing_and_of_empty_sentences():
    empty = collate(PAIRS, [])
    assert empty.src.shape == (0, 1) and empty.tgt_in.shape == (0, 1)
    none = np.zeros(0, np.uint16)
    pairs = Pairs(none, np.zeros(3, np.int64), none, np.zeros(3, np.int64))
    batch = collate(pairs, [0, 1])
    assert batch.src.tolist() == [[EOS]] * 2 and batch.tgt_in.tolist() == [[BOS]] * 2 and batch.tgt_out.tolist() == [[EOS]] * 2
    assert len(Batches(pairs, BatchSpec(size=10), 1).epoch(0)) == 1
