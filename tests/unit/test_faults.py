import signal

import pytest

from orchestrator.faults import InjectedFault, fault


def test_raise_at_one_step_only(monkeypatch):
    monkeypatch.setenv("NMT_FAULT", "step@3:raise, other:term")
    fault("step", 2)
    fault("step")
    fault("steps", 3)
    with pytest.raises(InjectedFault, match="step@3"):
        fault("step", 3)


def test_without_a_step_any_step(monkeypatch):
    monkeypatch.setenv("NMT_FAULT", "step:raise")
    for step in (None, 1, 99):
        with pytest.raises(InjectedFault):
            fault("step", step)


def test_once_over_processes(monkeypatch, tmp_path, forked):
    once = str(tmp_path / "once")
    text = "step@2:kill,step@2:kill"

    def work() -> None:
        fault("step", 1)
        fault("step", 2)

    assert [forked(work, text, once) for _ in range(3)] == [-signal.SIGKILL, -signal.SIGKILL, 0]


def test_term_kills_and_can_be_caught(forked):
    assert forked(lambda: fault("step", 1), "step@1:term") == -signal.SIGTERM

    def caught() -> None:
        signal.signal(signal.SIGTERM, lambda *_: None)
        fault("step", 1)

    assert forked(caught, "step@1:term") == 0
