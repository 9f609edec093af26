"""Finds the address of the cluster's dashboard and the authentication token, as Ray does. The token is never printed."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import urlsplit

from orchestrator.errors import UserError
from orchestrator.specs.positions import display, shown

DEFAULT = "http://127.0.0.1:8265"


def find_address(text: str | None) -> str:
    """Returns `http[s]://HOST[:PORT]`; the default scheme is http. UserError for anything else."""
    address = text or DEFAULT
    address = (address if "://" in address else f"http://{address}").rstrip("/")
    try:
        parts = urlsplit(address)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    if parts.username is not None or parts.password is not None:
        raise UserError("--address: found a user or password in it; expected http://HOST:8265 (the token comes from RAY_AUTH_TOKEN_PATH)")
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment or not address.isascii():
        raise UserError(f"--address {shown(text or '')}: expected the dashboard of the cluster's head, as in {DEFAULT}")
    return address if port or parts.scheme == "https" or parts.path else f"{address}:8265"


def find_token() -> str:
    """Reads RAY_AUTH_TOKEN, RAY_AUTH_TOKEN_PATH or ~/.ray/auth_token. UserError if there is none: a cluster must have a token."""
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
