"""Without a probe a plan bounds the memory of a run on a CPU from above."""

from __future__ import annotations

import pytest

from orchestrator.cost.plan_costs import short
from orchestrator.specs.schema import RunSpec
from orchestrator.sweeps.cost import Cost
from orchestrator.sweeps.memory import estimate


@pytest.mark.parametrize(
    ("width", "vocabulary", "params", "tokens", "peak"),
    [
        (32, 200, 290_000, 400, 0.36e9),  # dou2018/table1/row9 under smoke
        (128, 4000, 5_800_000, 2000, 1.04e9),  # the same under mini
    ],
)
def test_measured_peaks_are_below_the_bound(width, vocabulary, params, tokens, peak):
    side = {"num_layers": 6}
    spec = RunSpec.model_validate(
        {
            "data": {"corpus": "toy-smoke"},
            "model": {"d_model": width, "d_ff": 4 * width, "num_heads": 4, "norm": "post", "encoder": side, "decoder": side},
            "batch": {"unit": "tokens", "size": tokens},
            "train": {"max_steps": 1},
        }
    )
    assert peak < estimate(spec, params, vocabulary).total < peak + 0.8e9


def test_the_plan_says_that_it_is_a_bound():
    assert short(Cost("not probed", 1, room=3 * 2**30))[3] == "<3G" and short(Cost("probed", 1, memory=2**30))[3] == "1G"
