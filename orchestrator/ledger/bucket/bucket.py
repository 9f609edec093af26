"""Objects under one prefix of a bucket: read, create, compare-and-swap, list and delete. Errors are one line without secrets."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from orchestrator.errors import RemoteError, UserError
from orchestrator.specs.positions import shown

SCHEMES = ("s3", "gs", "az")
SECRETS = ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_ACCESS_KEY_ID", "AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_SAS_KEY")

LOGINS = {
    "s3": ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"),
    "gs": ("GOOGLE_APPLICATION_CREDENTIALS",),
    "az": ("AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ACCOUNT_KEY"),
}
_OF_THE_MACHINE = ("169.254.", "metadata.google.internal")
"""Addresses from which a machine gets the credentials of its role."""


_CONFLICTS = ("AlreadyExistsError", "PreconditionError", "NotFoundError", "FileNotFoundError")
"""Names of obstore's exceptions for a condition of a write that does not hold."""


class LostRace(Exception):
    """A conditional write failed: the object has changed, or exists where none was expected."""


@dataclass(frozen=True)
class Found:
    """An object: its name below the prefix, size in bytes, ETag, and time of writing by the server's clock."""

    name: str
    size: int
    etag: str
    modified: datetime


def check_url(url: str) -> str:
    """Returns `s3://bucket[/prefix]` without a trailing slash. UserError for anything else, without repeating possible secrets."""
    parts = urlsplit(url)
    if parts.username is not None or parts.password is not None or parts.query:
        raise UserError(f"--results {parts.scheme}://...: holds credentials or options; expected them in the environment (AWS_...)")
    if parts.scheme not in SCHEMES or not parts.netloc:
        raise UserError(f"--results {shown(url)}: expected a folder or a bucket, as in s3://bucket/prefix (schemes: {', '.join(SCHEMES)})")
    if any(part in (".", "..", "") for part in parts.path.strip("/").split("/") if parts.path.strip("/")):
        raise UserError(f"--results {shown(url)}: expected a prefix of plain names")
    return url.rstrip("/")


class Bucket:
    """A bucket behind an obstore `store`. Safe to use from several threads."""

    def __init__(self, url: str, store: Any) -> None:
        self.url, self._store = url, store

    @classmethod
    def open(cls, url: str) -> Bucket:
        """Opens a bucket without a request. UserError if the extra is not installed."""
        try:
            from obstore.store import from_url
        except ImportError:
            raise UserError(f"--results {url}: needs the package obstore; expected pip install '.[s3]' in the checkout") from None
        endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or os.environ.get("AWS_ENDPOINT")
        config: Any = {"endpoint": endpoint} if endpoint and url.startswith("s3:") else {}
        if url.startswith("s3:") and not (os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")):
            config["region"] = "us-east-1"
        client: Any = {"connect_timeout": "5s", "timeout": "120s", "allow_http": bool(endpoint and endpoint.startswith("http:"))}
        retry: Any = {"max_retries": 2, "retry_timeout": timedelta(seconds=10)}
        try:
            return cls(url, from_url(url, config=config, client_options=client, retry_config=retry))
        except Exception as error:  # obstore has many exception classes without a useful common base
            raise UserError(f"--results {url}: {clean(error)}") from None

    def get(self, name: str) -> tuple[bytes, Found] | None:
        """Content and metadata of an object; None if it does not exist."""
        try:
            with self._naming("read", name):
                answer = self._store.get(name)
                return bytes(answer.bytes()), _found(answer.meta)
        except FileNotFoundError:
            return None

    def download(self, name: str, path: Path) -> None:
        """Streams an object into `path`. FileNotFoundError if the object does not exist."""
        with self._naming("read", name), path.open("wb") as file:
            for chunk in self._store.get(name).stream(min_chunk_size=2**20):
                file.write(chunk)

    def put(self, name: str, content: bytes | Path) -> str:
        """Uploads an object, a large file in parts, and returns its ETag. FileNotFoundError if the file is gone."""
        with self._naming("write", name):
            return str(self._store.put(name, content)["e_tag"])

    def put_if(self, name: str, content: bytes, etag: str | None) -> str:
        """Replaces the object with this ETag (None: creates it) and returns the new ETag. LostRace if the object has another."""
        mode: Any = "create" if etag is None else {"e_tag": etag}
        with self._naming("write", name):
            try:
                return str(self._store.put(name, content, mode=mode, use_multipart=False)["e_tag"])
            except Exception as error:
                if type(error).__name__ in _CONFLICTS:
                    raise LostRace(name) from error
                raise

    def list(self, prefix: str | None = None) -> Iterator[Found]:
        """The objects in a folder (None: all)."""
        with self._naming("list", prefix or "objects"):
            for chunk in self._store.list(prefix):
                yield from map(_found, chunk)

    def delete(self, name: str) -> None:
        """Deletes an object; a missing one is no error."""
        with suppress(FileNotFoundError), self._naming("delete", name):
            self._store.delete(name)

    @contextmanager
    def _naming(self, verb: str, name: str) -> Iterator[None]:
        """Re-raises the server's errors as RemoteError in one line; a missing object or file, a full disk and a lost race as they are."""
        try:
            yield
        except (FileNotFoundError, LostRace):
            raise
        except Exception as error:
            if isinstance(error, OSError) and error.errno is not None:  # of the local file
                raise
            raise RemoteError(f"{self.url}: cannot {verb} {name}: {without_login(self.url, error) or clean(error)}") from None


def without_login(url: str, error: Exception) -> str | None:
    """The message for absent credentials: obstore then queries the machine's role, which fails. None for other errors."""
    if not any(mark in str(error) for mark in _OF_THE_MACHINE):
        return None
    wanted = LOGINS[url.partition(":")[0]]
    missing = [name for name in wanted if not os.environ.get(name)]
    return f"found no credentials, and this machine has no role; expected {' and '.join(missing or wanted)} in the environment"


def clean(error: Exception) -> str:
    """The reason of an error in one line (the server's code and message if it answered), without credentials."""
    text = str(error).split("\n\nDebug source")[0]
    code, words = re.search(r"<Code>([^<]+)</Code>", text), re.search(r"<Message>([^<]+)</Message>", text)
    if code is not None:
        text = f"{code[1]}{f' ({words[1]})' if words else ''}"
    text = re.sub(r"^Generic \w+ error: ", "", re.sub(r" in [0-9.]+\w?s(?:, after .*?)? +- ", ": ", text))
    for name in SECRETS:
        if value := os.environ.get(name):
            text = text.replace(value, f"[{name}]")
    return shown(" ".join(text.split()), 300)


def _found(meta: Any) -> Found:
    return Found(meta["path"], int(meta["size"]), str(meta["e_tag"]), meta["last_modified"])
