"""Validations that tell given losses."""

import pytest

from orchestrator.training.objective import Validator


@pytest.fixture
def validations(monkeypatch):
    """`validations(values)`: they tell these losses, one after the other, whatever the weights are."""

    def use(values):
        told = iter(values)
        monkeypatch.setattr(Validator, "__call__", lambda self, model: {"valid/nll": next(told), "valid/ppl": 1.0, "valid/accuracy": 0.0})

    return use
