from __future__ import annotations

import errno
import signal
import time

import pytest

from orchestrator.errors import UserError
from orchestrator.faults import InjectedFault, active, fault, parse


def test_off_by_default():
    assert active() == ()
    fault("step", 1)


@pytest.mark.parametrize(
    "text", ["step", "step@x:kill", "step@1:explode", "@3:kill", "step@-1:kill", "step:sleep", "a:kill,,b:kill", "Step:kill", "step:kill@3"]
)
def test_bad_strings_are_user_errors(monkeypatch, text):
    monkeypatch.setenv("NMT_FAULT", text)
    with pytest.raises(UserError) as caught:
        active()
    assert all(line.startswith("NMT_FAULT: ") and "\n" not in line for line in caught.value.lines)


def test_every_bad_entry_is_named():
    with pytest.raises(UserError) as caught:
        parse("a:boom,b:kill,c@z:term")
    assert len(caught.value.lines) == 2


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


def test_enospc_sleep(monkeypatch):
    monkeypatch.setenv("NMT_FAULT", "disk:enospc,slow:sleep0.05")
    with pytest.raises(OSError) as caught:
        fault("disk")
    assert caught.value.errno == errno.ENOSPC
    started = time.monotonic()
    fault("slow")
    assert time.monotonic() - started >= 0.05


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
