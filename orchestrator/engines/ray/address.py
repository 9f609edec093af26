"""RAY_ADDRESS, looked at before Ray is: Ray itself would try for half a minute and end in a page of text."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable

from orchestrator.engines.ray.jobs.access import find_token
from orchestrator.errors import UserError
from orchestrator.specs.positions import shown

BY_RAY = ("auto", "local")
"""Words that Ray looks up on this machine."""


LIMIT = 60.0
"""Seconds in which a head must say who it is."""

_ASK = "import sys; from ray._raylet import GcsClient; GcsClient(address=sys.argv[1])"


def check_address(address: str, ask: Callable[[str], str | None] | None = None) -> None:
    """UserError where it is no HOST:PORT, where nothing answers there, and where the token is missing or not the cluster's."""
    if address in BY_RAY:
        return
    place = address.removeprefix("ray://")
    host, _, port = place.rpartition(":")
    if not host or "/" in host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise UserError(f"RAY_ADDRESS {shown(address)}: expected HOST:PORT of the cluster's head, as in 10.0.0.1:6379")
    if _mode() == "token":
        find_token()
    if not answers(place):
        raise UserError(f"RAY_ADDRESS {shown(address)}: nothing answers there; expected HOST:PORT of the head of a cluster that runs")
    problem = (ask or _ask)(address) if place == address else None
    if problem is not None:
        raise UserError(f"RAY_ADDRESS {shown(address)}: {problem}")


def _ask(address: str) -> str | None:
    """What is wrong with it, asked in a process of its own: there Ray may try for as long, and write as much, as it likes."""
    environment = os.environ | {"RAY_AUTH_MODE": _mode()}
    try:
        done = subprocess.run([sys.executable, "-c", _ASK, address], env=environment, capture_output=True, text=True, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        return "what answers there is no head of a Ray cluster; expected its port, by default 6379"
    if "AuthenticationError" in done.stderr:
        return "the cluster does not take this token; set RAY_AUTH_TOKEN_PATH to the file that holds the cluster's"
    return None  # of other faults `ray.init` tells more


def answers(address: str, timeout: float = 5.0) -> bool:
    """Does anything listen there?"""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout):
            return True
    except OSError:
        return False


def _mode() -> str:
    return os.environ.get("RAY_AUTH_MODE", "token")
