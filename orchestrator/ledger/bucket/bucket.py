"""Objects under one prefix of a bucket: read, create, compare-and-swap, list and delete. Errors are one line without secrets."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

from orchestrator.errors import RemoteError, UserError
from orchestrator.specs.positions import shown

SECRETS = ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_ACCESS_KEY_ID")
_CONFLICTS = ("AlreadyExistsError", "PreconditionError", "NotFoundError", "FileNotFoundError")
"""Names of obstore's exceptions for a condition of a write that does not hold."""

Meta = Any
"""obstore's ObjectMeta: `path` below the prefix, `size`, `e_tag`, and `last_modified` by the server's clock."""


class LostRace(Exception):
    """A conditional write failed: the object has changed, or exists where none was expected."""


def check_url(url: str) -> str:
    """Returns `s3://bucket[/prefix]` without a trailing slash. UserError for anything else, without repeating possible secrets."""
    parts = urlsplit(url)
    if parts.username is not None or parts.password is not None or parts.query:
        raise UserError(f"--results {parts.scheme}://...: holds credentials or options; expected them in the environment (AWS_...)")
    if parts.scheme != "s3" or not parts.netloc:
        raise UserError(f"--results {shown(url)}: expected a folder or a bucket, as in s3://bucket/prefix")
    if any(part in (".", "..", "") for part in parts.path.strip("/").split("/") if parts.path.strip("/")):
        raise UserError(f"--results {shown(url)}: expected a prefix of plain names")
    return url.rstrip("/")


class Bucket:
    """A bucket behind an obstore `store`; `quick`: the same with a short timeout, for small answers. Safe to use from several threads."""

    def __init__(self, url: str, store: Any, quick: Any = None) -> None:
        self.url, self._store, self._quick = url, store, quick or store

    @classmethod
    def open(cls, url: str) -> "Bucket":
        """Opens a bucket without a request; obstore reads credentials, region and endpoint from the environment.

        UserError if the extra is not installed.
        """
        try:
            from obstore.store import from_url
        except ImportError:
            raise UserError(f"--results {url}: needs the package obstore; expected pip install '.[s3]' in the checkout") from None
        client: Any = {"connect_timeout": "5s", "allow_http": True}  # for an endpoint that says http:
        retry: Any = {"max_retries": 2, "retry_timeout": timedelta(seconds=10)}
        try:
            return cls(url, *(from_url(url, client_options=client | {"timeout": limit}, retry_config=retry) for limit in ("120s", "10s")))
        except Exception as error:  # obstore has many exception classes without a useful common base
            raise UserError(f"--results {url}: {clean(error)}") from None

    def get(self, name: str, *, small: bool = False) -> tuple[bytes, Meta] | None:
        """Content and metadata of an object; None if it does not exist. small: as a claim, which a server sends within seconds."""
        with suppress(FileNotFoundError), self._naming("read", name):
            answer = (self._quick if small else self._store).get(name)
            return bytes(answer.bytes()), answer.meta
        return None

    def put(self, name: str, content: bytes) -> str:
        """Writes an object, a large one in parts, and returns its ETag."""
        with self._naming("write", name):
            return str(self._store.put(name, content)["e_tag"])

    def put_if(self, name: str, content: bytes, etag: str | None) -> str:
        """Replaces the object with this ETag (None: creates it) and returns the new ETag. LostRace if the object has another."""
        mode: Any = "create" if etag is None else {"e_tag": etag}
        with self._naming("write", name):
            try:
                return str(self._quick.put(name, content, mode=mode, use_multipart=False)["e_tag"])
            except Exception as error:
                if type(error).__name__ in _CONFLICTS:
                    raise LostRace(name) from error
                raise

    def list(self, prefix: str | None = None) -> list[Meta]:
        with self._naming("list", prefix or "objects"):
            return [meta for chunk in self._quick.list(prefix) for meta in chunk]

    def delete(self, name: str) -> None:
        """Deletes an object; a missing one is no error."""
        with suppress(FileNotFoundError), self._naming("delete", name):
            self._quick.delete(name)

    @contextmanager
    def _naming(self, verb: str, name: str) -> Iterator[None]:
        """Re-raises the server's errors as RemoteError in one line; a missing object and a lost race as they are."""
        try:
            yield
        except (FileNotFoundError, LostRace):
            raise
        except Exception as error:
            raise RemoteError(f"{self.url}: cannot {verb} {name}: {clean(error)}") from None


def clean(error: Exception) -> str:
    """The reason of an error in one line (the server's code and message if it answered), without credentials."""
    text = str(error).split("\n\nDebug source")[0]
    if "://169.254." in text:  # where a machine gets the credentials of its role
        return "found no credentials, and this machine has no role; expected AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment"
    code, words = re.search(r"<Code>([^<]+)</Code>", text), re.search(r"<Message>([^<]+)</Message>", text)
    if code is not None:
        text = f"{code[1]}{f' ({words[1]})' if words else ''}"
    text = re.sub(r"^Generic \w+ error: ", "", re.sub(r" in [0-9.]+\w?s(?:, after .*?)? +- ", ": ", text))
    for name in SECRETS:
        if value := os.environ.get(name):
            text = text.replace(value, f"[{name}]")
    return shown(" ".join(text.split()), 300)
