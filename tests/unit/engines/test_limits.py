"""Limits of the shell with which Ray cannot start are raised, or named in one line."""

import resource
from typing import Any

import pytest

from orchestrator.engines.resources import check_limits
from orchestrator.errors import UserError


def test_limits_with_which_ray_cannot_start(monkeypatch: Any) -> None:
    limits = {resource.RLIMIT_NOFILE: (64, 4096), resource.RLIMIT_AS: (-1, -1)}
    monkeypatch.setattr(resource, "getrlimit", lambda kind: limits[kind])
    monkeypatch.setattr(resource, "setrlimit", lambda kind, pair: limits.update({kind: pair}))
    check_limits()
    assert limits[resource.RLIMIT_NOFILE] == (1024, 4096), "raised as far as it may be"
    for kind, found in ((resource.RLIMIT_NOFILE, "ulimit -n 64"), (resource.RLIMIT_AS, "ulimit -v 0")):
        limits[kind] = (64, 64)
        with pytest.raises(UserError, match=found):
            check_limits()
        limits[kind] = (-1, -1)
