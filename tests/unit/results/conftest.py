"""Processes that die where a fault says so."""

from __future__ import annotations

import os
import signal
import traceback
from collections.abc import Callable

import pytest


@pytest.fixture(autouse=True)
def _no_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NMT_FAULT", raising=False)
    monkeypatch.delenv("NMT_FAULT_ONCE", raising=False)


@pytest.fixture
def child() -> Callable[..., int]:
    """`child(work, fault)`: runs `work()` in a forked process under NMT_FAULT; its exit code, negative for a signal."""

    def run(work: Callable[[], object], fault: str = "", once: str = "") -> int:
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                os.environ.update({name: value for name, value in (("NMT_FAULT", fault), ("NMT_FAULT_ONCE", once)) if value})
                signal.alarm(60)
                work()
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    return run
