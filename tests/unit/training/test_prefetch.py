"""Batches made ahead: the same updates, a thread that ends, padding that changes nothing."""

import threading
from unittest.mock import MagicMock

import pytest
import torch

from orchestrator.data.batching import Batch
from orchestrator.training import batches
from orchestrator.training.batches import Update, prefetch, rounded
from orchestrator.training.graphs import form_on


@pytest.fixture(autouse=True)
def without_a_gpu(monkeypatch):
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor: tensor)
    monkeypatch.setattr(batches, "DEPTH", 2)


def _update(i: int, rows: int = 3, src: int = 5, tgt: int = 6) -> Update:
    g = torch.Generator().manual_seed(i)
    source = torch.randint(4, 20, (rows, src), generator=g)
    target = torch.randint(4, 20, (rows, tgt), generator=g)
    tgt_in = torch.cat((torch.full((rows, 1), 2), target[:, :-1]), 1)
    batch = Batch(source, tgt_in, target)
    return Update([batch], [False], rows * src, rows * tgt, rows * (src + tgt), 0, i)


def test_the_same_updates_in_the_same_order_rounded_up():
    got = list(prefetch((_update(i) for i in range(9)), rounded))
    assert [u.index for u in got] == list(range(9))
    for u in got:
        batch, plain = u.micro_batches[0], _update(u.index).micro_batches[0]
        assert batch.src.shape == (8, 8) and batch.tgt_in.shape == batch.tgt_out.shape == (8, 8)
        assert torch.equal(batch.src[:3, :5], plain.src) and not batch.src[3:].any() and not batch.src[:, 5:].any()
        assert (u.src_tokens, u.tgt_tokens) == (15, 18)


@pytest.mark.parametrize(("most", "length"), [(None, 8), (6, 6), (7, 7), (512, 8)])
def test_lengths_are_rounded_up_within_the_learned_positions(most, length):
    form = form_on(MagicMock(**{"device.type": "cuda"}), MagicMock(max_positions=most), MagicMock())
    assert form(_update(0).micro_batches[0]).tgt_out.shape == (8, length)


def test_an_error_of_the_updates_is_raised_where_it_belongs():
    def broken():
        yield _update(0)
        raise OSError("disk")

    updates = prefetch(broken(), rounded)
    assert next(updates).index == 0
    with pytest.raises(OSError, match="disk"):
        next(updates)


def test_leaving_early_ends_the_thread():
    def endless():
        i = 0
        while True:
            yield _update(i)
            i += 1

    before = threading.active_count()
    updates = prefetch(endless(), rounded)
    next(updates)
    updates.close()
    assert threading.active_count() == before
