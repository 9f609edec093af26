"""Without a probe a plan bounds the memory of a run on a CPU from above."""

from __future__ import annotations

import pytest

from orchestrator.cost.plan_costs import short
from orchestrator.specs.schema import RunSpec
from orchestrator.sweeps.cost import Cost
from orchestrator.sweeps.memory import estimate


@pytest.mark.parametrize(
    ("width", "vocabulary", "params", "peak"),
    [(32, 200, 200_000, 1.03e9), (128, 4000, 4_300_000, 2.68e9)],  # measured under smoke; reported of a whole run under cpu
)
def test_known_peaks_are_below_the_bound(width, vocabulary, params, peak):
    side = {"num_layers": 6}
    spec = RunSpec.model_validate(
        {
            "data": {"corpus": "toy-smoke"},
            "model": {"d_model": width, "d_ff": 4 * width, "num_heads": 4, "norm": "post", "encoder": side, "decoder": side},
            "batch": {"unit": "tokens", "size": 400},
            "train": {"max_steps": 1, "precision": "bf16" if width == 128 else "fp32"},
        }
    )
    assert estimate(spec, params, vocabulary).total > peak


def test_the_plan_says_that_it_is_a_bound():
    assert short(Cost("not probed", 1, room=3 * 2**30))[3] == "<3G" and short(Cost("probed", 1, memory=2**30))[3] == "1G"
