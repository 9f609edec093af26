"""What a profile does to schedules."""

from __future__ import annotations

import pytest

from orchestrator.rows import resolve
from orchestrator.spec import Schedule


def _peak(schedule: Schedule, d_model: int) -> float:
    return schedule.factor * d_model**-0.5 * schedule.warmup**-0.5


@pytest.mark.parametrize("profile", ["smoke", "cpu", "gpu"])
def test_noams_highest_rate_stays_as_published(profile: str) -> None:
    (published,), (scaled,) = resolve("dou2018/table1/row1"), resolve("dou2018/table1/row1", profile=profile)
    assert published.spec is not None and scaled.spec is not None
    width, narrow = published.spec.model.d_model, scaled.spec.model.d_model
    assert narrow < width
    assert scaled.spec.optim.schedule.warmup < published.spec.optim.schedule.warmup
    assert _peak(scaled.spec.optim.schedule, narrow) == pytest.approx(_peak(published.spec.optim.schedule, width), rel=1e-3)
