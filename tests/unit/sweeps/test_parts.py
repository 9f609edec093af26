"""Parameters are counted by parts, each constructed once."""

from __future__ import annotations

import pytest
from torch import nn

from orchestrator.sweeps.parameters import params
from tests.unit.training.support import changed

WIDTH, SIZES = {"d_model": 24, "num_heads": 2}, (311, 313)
"""Of no other test, for counts stay in the process."""


@pytest.mark.parametrize(
    ("model", "sizes", "made"),
    [
        ({"encoder": {"num_layers": 5}}, SIZES, 0),  # more of the same layers
        ({"bridge": {"kind": "transparent"}}, SIZES, 0),  # its weights are no linear map
        ({}, (317, 331), 1),  # the output layer
        ({"encoder": {"num_layers": 2, "connection": {"kind": "hierarchical"}}}, SIZES, 2),  # its node
    ],
)
def test_another_model_constructs_what_is_new(model, sizes, made, monkeypatch):
    params(changed(model=WIDTH), *SIZES)
    found: list[nn.Linear] = []
    whole = nn.Linear.__init__
    monkeypatch.setattr(nn.Linear, "__init__", lambda self, *args, **options: (found.append(self), whole(self, *args, **options))[1])
    params(changed(model=WIDTH | model), *sizes)
    assert len(found) == made
