"""Sealed JSON documents: objects with a `key`, and a `digest` (sha256 of the rest) that reveals damage."""

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from orchestrator.errors import UserError
from orchestrator.files.atomic import plain, write_json
from orchestrator.files.canonical import digest
from orchestrator.safe_text import log_once

MOST_VALUES = 4_000_000
"""In one JSON text: an empty list takes 3 bytes of text and 64 of memory."""
KEY = re.compile(r"[0-9a-f]{64}")


def checked(key: str) -> str:
    """Returns the key. Raises ValueError if it is malformed, since it becomes part of a path."""
    if not KEY.fullmatch(key):
        raise ValueError(f"{key!r} is not a key")
    return key


def sealed(record: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Returns the record as stored, with key and digest. Raises ValueError if it has another key."""
    if record.get("key", key) != key:
        raise ValueError(f"the record says key {record['key']}, expected {key}")
    document: dict[str, Any] = plain({**unsealed(record), "key": key})
    return document | {"digest": digest(document)}


def unsealed(document: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a stored record without its digest."""
    return {name: value for name, value in document.items() if name != "digest"}


def read_document(path: Path) -> dict[str, Any] | None:
    """Returns the sealed JSON object in a file, or None if it is missing or malformed, or its digest is missing or wrong."""
    document = read_object(path)
    try:
        return document if document is not None and document.get("digest") == digest(unsealed(document)) else None
    except (ValueError, RecursionError):
        return None


def write_document(path: Path, record: Mapping[str, Any], key: str, **options: Any) -> None:
    """Writes a sealed document atomically; options: of `atomic.write_bytes`."""
    write_json(path, sealed(record, key), **options)


def read_or_tell(path: Path) -> dict[str, Any] | None:
    """`read_document` without the digest; a document that is damaged or was changed counts as absent, with one warning on stderr."""
    there, document = path.exists(), read_document(path)  # in this order, for it may be written in between
    if document is None and there:
        log_once(f"warning: {path}: its digest is not the one of its content; it counts as absent until it is made again")
    return None if document is None else unsealed(document)


def read_or_refuse(path: Path, expected: str) -> dict[str, Any] | None:
    """`read_document`; None only if nothing is there. UserError for a damaged document, in one line with what was `expected`."""
    document = read_document(path)
    if document is None and os.path.lexists(path):
        raise UserError(f"{path}: its digest is missing or not the one of its content; expected {expected}")
    return document


def parse(data: bytes) -> Any:
    """Parses JSON. Raises ValueError (or RecursionError) if it is malformed, or has so many values that they would fill the memory."""
    if sum(data.count(mark) for mark in b"[{,") > MOST_VALUES:
        raise ValueError(f"more than {MOST_VALUES} values")
    return json.loads(data)


def read_object(path: Path) -> dict[str, Any] | None:
    """Returns the JSON object in a file that is not sealed, or None if it is missing or malformed."""
    try:
        document = parse(read_bytes(path) or b"")
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def read_bytes(path: Path) -> bytes | None:
    """Returns the content of a file, or None if nothing is there, or something else than a file (a FIFO, a folder)."""
    try:
        return path.read_bytes() if path.is_file() else None
    except (FileNotFoundError, NotADirectoryError):
        return None


def key_in(document: Mapping[str, Any] | None, name: str) -> str | None:
    """Returns the document's key if it is well-formed and starts with `name` (of the file or directory), else None."""
    key = (document or {}).get("key")
    return key if isinstance(key, str) and KEY.fullmatch(key) and key.startswith(name) else None
