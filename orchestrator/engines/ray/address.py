"""Addresses and the token of a cluster, checked before Ray is imported: Ray would retry for half a minute and print a page of text."""

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

from orchestrator.errors import UserError
from orchestrator.specs.positions import display, shown

DASHBOARD = "http://127.0.0.1:8265"
TIMEOUT = 60.0
"""Seconds within which a head must identify itself."""

_PROBE = "import sys; from ray._raylet import GcsClient; GcsClient(address=sys.argv[1])"


def check_mode() -> None:
    """UserError if Ray would ask for no token."""
    if (mode := os.environ.get("RAY_AUTH_MODE", "token")) != "token":
        raise UserError(f"RAY_AUTH_MODE {shown(mode)}: expected token; without one, all who reach Ray's ports can run code")


def check_address(address: str) -> None:
    """UserError if `address` is not HOST:PORT, if nothing listens there, or if the token is missing or not the cluster's."""
    endpoint = address.removeprefix("ray://")
    host, _, port = endpoint.rpartition(":")
    if not host or "/" in host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise UserError(f"RAY_ADDRESS {shown(address)}: expected HOST:PORT of the cluster's head, as in 10.0.0.1:6379")
    find_token()
    if not is_listening(endpoint):
        raise UserError(f"RAY_ADDRESS {shown(address)}: nothing answers there; expected HOST:PORT of the head of a cluster that runs")
    if endpoint == address and (problem := _probe(address)) is not None:
        raise UserError(f"RAY_ADDRESS {shown(address)}: {problem}")


def _probe(address: str) -> str | None:
    """Returns the problem with the address, if any. Runs in a separate process, because Ray retries and prints errors."""
    environment = {"RAY_AUTH_MODE": "token"} | os.environ
    try:
        done = subprocess.run([sys.executable, "-c", _PROBE, address], env=environment, capture_output=True, text=True, timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        return "what answers there is no head of a Ray cluster; expected its port, by default 6379"
    if "AuthenticationError" in done.stderr:
        return "the cluster does not take this token; set RAY_AUTH_TOKEN_PATH to the file that holds the cluster's"
    return None  # `ray.init` explains other errors better


def is_listening(address: str) -> bool:
    """Returns whether HOST:PORT accepts connections."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=5.0):
            return True
    except OSError:
        return False


def find_dashboard(text: str | None) -> str:
    """The dashboard's address; the default scheme is http. UserError for another scheme, or a password in it."""
    address = text or DASHBOARD
    address = (address if "://" in address else f"http://{address}").rstrip("/")
    if "@" in address:
        raise UserError("--address: found a user or password in it; expected http://HOST:8265 (the token comes from RAY_AUTH_TOKEN_PATH)")
    if re.fullmatch(r"http://([^/:]+|\[[^/]+\])", address):
        address += ":8265"
    if not address.startswith(("http://", "https://")):
        raise UserError(f"--address {shown(address)}: expected the dashboard of the cluster's head, as in {DASHBOARD}")
    return address


def find_token() -> str:
    """Reads RAY_AUTH_TOKEN, RAY_AUTH_TOKEN_PATH or ~/.ray/auth_token, as Ray does. UserError if there is none. Never printed."""
    token = os.environ.get("RAY_AUTH_TOKEN", "").strip()
    if not token:
        named = os.environ.get("RAY_AUTH_TOKEN_PATH")
        path = Path(named) if named else Path("~/.ray/auth_token").expanduser()
        try:
            token = path.read_text().strip()
        except (OSError, UnicodeDecodeError):
            problem = f"{display(path)} cannot be read" if named else "no token"
            raise UserError(f"{problem}: set RAY_AUTH_TOKEN_PATH to the file that holds the cluster's") from None
    if not token or not token.isascii() or not token.isprintable():
        raise UserError("the token is empty or not one line of text: set RAY_AUTH_TOKEN_PATH to the file that holds the cluster's")
    return token
