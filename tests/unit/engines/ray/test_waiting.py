"""A sweep that waits says for what, and ends where it was told how long; the clock is the test's."""

from __future__ import annotations

from orchestrator.engines.ray.stoppers import GRACE_SECONDS, ResourceWaitStopper
from orchestrator.engines.resources import Capacity, Node


class Scene:
    def __init__(self, tmp_path, limit: float | None = None) -> None:
        self.now, self.pending, self.lines, self.stop = 0.0, {}, [], tmp_path / "sweeps" / "s.stop"
        self.waiting = ResourceWaitStopper(
            Capacity((Node(4),)),
            self.stop,
            limit,
            pending=lambda: self.pending,
            available=lambda: {"CPU": 1.0},
            clock=lambda: self.now,
            log=self.lines.append,
        )

    def until(self, end: float) -> bool:
        while self.now < end and not self.waiting.stop_all():
            self.now += 1.0
        return self.now < end


def test_it_is_told_once_a_minute_has_gone_and_then_seldom(tmp_path):
    scene = Scene(tmp_path)
    scene.pending = {"a": {"CPU": 2.0}}
    assert not scene.until(59) and not scene.lines
    assert not scene.until(200)
    assert scene.lines == ["waiting for 2 CPUs since 60 s: free are 1 of 4 CPUs that the cluster had at the start"]
    assert not scene.until(700) and len(scene.lines) == 2


def test_what_comes_in_time_is_not_told(tmp_path):
    """Each waits for less than a minute, though something always waits."""
    scene = Scene(tmp_path, limit=60.0)
    for end in range(40, 400, 40):
        scene.pending = {str(end): {"CPU": 2.0}}
        assert not scene.until(end)
    assert not scene.lines and scene.waiting.reason is None


def test_the_limit_lets_rows_save_and_ends_it(tmp_path):
    scene = Scene(tmp_path, limit=30.0)
    scene.pending = {"a": {"GPU": 0.5}}
    assert scene.until(1000)
    assert scene.stop.exists() and 30 + GRACE_SECONDS <= scene.now <= 45 + GRACE_SECONDS
    assert scene.waiting.reason.startswith("waiting for 0.5 GPU since 30 s") and scene.waiting.reason.endswith("the limit is 30 s")
