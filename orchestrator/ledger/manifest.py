"""Manifests of tensor files: the files that belong together, their sha256, and the train key. Does not need torch."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from orchestrator.files.documents import parse
from orchestrator.ledger import object_store


class CorruptError(Exception):
    """Stored bytes are missing or damaged. The message is the reason, without the path."""


def encode_manifest(manifest: Mapping[str, Any]) -> bytes:
    body = json.dumps(manifest, sort_keys=True)
    return json.dumps({"manifest": manifest, "sha256": hashlib.sha256(body.encode()).hexdigest()}, sort_keys=True).encode() + b"\n"


def decode_manifest(data: bytes) -> dict[str, Any]:
    try:
        manifest = dict(parse(data)["manifest"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise CorruptError("manifest is not readable") from error
    if encode_manifest(manifest) != data:
        raise CorruptError("manifest is damaged")
    return manifest


def read_verified(path: Path, sha256: str) -> bytes:
    if not path.exists():
        object_store.fetch(path)
    try:
        data = path.read_bytes()
    except FileNotFoundError as error:
        raise CorruptError(f"{path.name} is missing") from error
    if hashlib.sha256(data).hexdigest() != sha256:
        raise CorruptError(f"{path.name}: sha256 differs from the manifest ({len(data)} bytes)")
    return data
