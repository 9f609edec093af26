"""A row whose data has sentences that its model has no positions for does not start."""

from types import SimpleNamespace

import pytest

from orchestrator.errors import UserError
from orchestrator.specs.schema import ScoreSpec
from orchestrator.sweeps.preflight import check_positions
from tests.unit.training.support import changed, small_pairs


def check(train, valid, test, **model):
    spec = changed(model={"positions": "learned", "max_positions": 10} | model, data={"corpus": "toy-smoke", "max_length": 9})
    splits = {"train": small_pairs(train), "valid": small_pairs(valid), "other": small_pairs(test)}
    scorings = {"": SimpleNamespace(spec=ScoreSpec(test="other"))}
    check_positions(SimpleNamespace(id="a/b", spec=spec, scorings=scorings), SimpleNamespace(pairs=splits.__getitem__))


def test_all_that_is_read_must_have_positions_unless_they_have_no_end():
    check((9, 9), (9, 9), (9, 100))  # of a test set the model reads the source alone
    for wrong, split in (((10, 3), 0), ((3, 10), 0), ((10, 3), 1), ((3, 10), 1), ((10, 3), 2)):
        lengths = [(9, 9)] * 3
        lengths[split] = wrong
        name = ("train", "valid", "other")[split]
        with pytest.raises(UserError, match=f"^a/b: {name}: found a sentence of 11 subwords with its EOS; expected at most 10"):
            check(*lengths)
    check((500, 500), (500, 500), (500, 500), positions="sinusoidal")
