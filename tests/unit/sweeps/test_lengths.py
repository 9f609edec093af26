"""A row whose data has sentences that its model has no positions for does not start."""

from types import SimpleNamespace

import numpy as np
import pytest

from orchestrator.data.store import Pairs
from orchestrator.errors import UserError
from orchestrator.specs.schema import ScoreSpec
from orchestrator.sweeps.preflight import check_positions
from tests.unit.training.support import changed


def pairs(*lengths):
    """One pair for each (source, target)."""
    arrays = []
    for side in zip(*lengths, strict=True):
        arrays += [np.zeros(sum(side), np.uint16), np.cumsum([0, *side])]
    return Pairs(*arrays)


def check(train, valid, test, **model):
    spec = changed(model={"positions": "learned", "max_positions": 10} | model, data={"corpus": "toy-smoke", "max_length": 9})
    splits = {"train": pairs(train), "valid": pairs(valid), "other": pairs(test)}
    scorings = {"": SimpleNamespace(spec=ScoreSpec(test="other"))}
    check_positions(SimpleNamespace(id="a/b", spec=spec, scorings=scorings), SimpleNamespace(pairs=splits.__getitem__))


def test_all_that_is_read_must_have_positions():
    check((9, 9), (9, 9), (9, 100))  # of a test set the model reads the source alone
    for wrong, split in (((10, 3), 0), ((3, 10), 0), ((10, 3), 1), ((3, 10), 1), ((10, 3), 2)):
        lengths = [(9, 9)] * 3
        lengths[split] = wrong
        name = ("train", "valid", "other")[split]
        with pytest.raises(UserError, match=f"^a/b: {name}: found a sentence of 11 subwords with its EOS; expected at most 10"):
            check(*lengths)


def test_other_positions_have_no_end():
    check((500, 500), (500, 500), (500, 500), positions="sinusoidal")
