"""Sealed JSON documents: an object with its `key` and a `digest`, the sha256 of the rest. Damage is told from absence."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from orchestrator.files.atomic import plain
from orchestrator.files.canonical import digest

KEY = re.compile(r"[0-9a-f]{64}")


def checked(key: str) -> str:
    """The key itself. ValueError if it is none (it becomes part of a path)."""
    if not KEY.fullmatch(key):
        raise ValueError(f"{key!r} is not a key")
    return key


def sealed(record: Mapping[str, Any], key: str) -> dict[str, Any]:
    """The record as it is stored. ValueError if it claims another key."""
    if record.get("key", key) != key:
        raise ValueError(f"the record says key {record['key']}, expected {key}")
    document: dict[str, Any] = plain({**unsealed(record), "key": key})
    return document | {"digest": digest(document)}


def unsealed(document: Mapping[str, Any]) -> dict[str, Any]:
    """A stored record without its digest."""
    return {name: value for name, value in document.items() if name != "digest"}


def read_document(path: Path) -> dict[str, Any] | None:
    """A JSON object whose digest, where it has one, is right; None for anything else (absent too)."""
    try:
        document = json.loads(read_bytes(path) or b"")
        good = isinstance(document, dict) and document.get("digest") in (None, digest(unsealed(document)))
    except (ValueError, RecursionError):
        return None
    return document if good else None


def read_bytes(path: Path) -> bytes | None:
    """Content of a file, None where there is none."""
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None


def key_in(document: Mapping[str, Any] | None, name: str) -> str | None:
    """The document's key where it is one and begins with `name` (that of the file or directory), else None."""
    key = (document or {}).get("key")
    return key if isinstance(key, str) and KEY.fullmatch(key) and key.startswith(name) else None
