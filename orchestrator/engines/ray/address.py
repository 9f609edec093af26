"""Checks RAY_ADDRESS before Ray is imported, which would retry for half a minute and print a page of text."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable

from orchestrator.engines.ray.jobs.access import find_token
from orchestrator.errors import UserError
from orchestrator.specs.positions import shown

RAY_KEYWORDS = ("auto", "local")
"""Addresses that Ray resolves on this machine."""

TIMEOUT = 60.0
"""Seconds within which a head must identify itself."""

_PROBE = "import sys; from ray._raylet import GcsClient; GcsClient(address=sys.argv[1])"


def check_address(address: str, probe: Callable[[str], str | None] | None = None) -> None:
    """UserError if `address` is not HOST:PORT, if nothing listens there, or if the token is missing or not the cluster's."""
    if address in RAY_KEYWORDS:
        return
    endpoint = address.removeprefix("ray://")
    host, _, port = endpoint.rpartition(":")
    if not host or "/" in host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise UserError(f"RAY_ADDRESS {shown(address)}: expected HOST:PORT of the cluster's head, as in 10.0.0.1:6379")
    if _auth_mode() == "token":
        find_token()
    if not is_listening(endpoint):
        raise UserError(f"RAY_ADDRESS {shown(address)}: nothing answers there; expected HOST:PORT of the head of a cluster that runs")
    problem = (probe or _probe)(address) if endpoint == address else None
    if problem is not None:
        raise UserError(f"RAY_ADDRESS {shown(address)}: {problem}")


def _probe(address: str) -> str | None:
    """Returns the problem with the address, if any. Runs in a separate process, because Ray retries and prints errors."""
    environment = os.environ | {"RAY_AUTH_MODE": _auth_mode()}
    try:
        done = subprocess.run([sys.executable, "-c", _PROBE, address], env=environment, capture_output=True, text=True, timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        return "what answers there is no head of a Ray cluster; expected its port, by default 6379"
    if "AuthenticationError" in done.stderr:
        return "the cluster does not take this token; set RAY_AUTH_TOKEN_PATH to the file that holds the cluster's"
    return None  # `ray.init` explains other errors better


def is_listening(address: str, timeout: float = 5.0) -> bool:
    """Returns whether HOST:PORT accepts connections."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout):
            return True
    except OSError:
        return False


def is_refused(address: str) -> bool:
    """Returns whether no process listens at HOST:PORT of this machine."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), 5.0):
            return False
    except OSError as error:
        return isinstance(error, ConnectionRefusedError)


def _auth_mode() -> str:
    return os.environ.get("RAY_AUTH_MODE", "token")
