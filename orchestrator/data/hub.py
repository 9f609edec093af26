"""Datasets of the Hugging Face Hub: finds the Parquet files of a split by the hub's API, downloads them and checks their sha256.

The environment variables HF_ENDPOINT (another server) and HF_TOKEN (for private and gated datasets) are the hub's own.
"""

import contextlib
import fnmatch
import hashlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import requests

from orchestrator.data.formats import Columns, Row, rows
from orchestrator.errors import UserError
from orchestrator.files import atomic
from orchestrator.paths import user_cache
from orchestrator.specs.corpora import CONVERTED, HuggingFace

TRIES, LONGEST_WAIT = 3, 30.0
"""Requests until a busy server counts as unreachable, and seconds to wait between them at most."""
TIMEOUT = (10.0, 30.0)
"""Seconds until a connection, and from one part of the answer to the next."""


class Unreachable(UserError):
    """The source cannot deliver any split now."""


class File(NamedTuple):
    """A file of a dataset. sha256: as the hub states it, None where it states none."""

    path: str
    size: int
    sha256: str | None


def delivered(source: HuggingFace, split: str, columns: Columns, origin: dict[str, Any]) -> Iterator[Row]:
    """Yields source and references of a split. Adds URL, revision and files to `origin`, for the record beside the text.

    Raises UserError for absent data, Unreachable for a server that does not deliver.
    """
    host = os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")
    revision = source.revision or ("main" if source.files else CONVERTED)
    api = f"{host}/api/datasets/{source.id}"
    with requests.Session() as session:
        if token := os.environ.get("HF_TOKEN"):
            session.headers["Authorization"] = f"Bearer {token}"
        commit = str(_json(_get(session, f"{api}/revision/{quote(revision, safe='')}"))["sha"])
        files = _files(session, f"{api}/tree/{commit}", source, split)
        origin |= {"url": f"{host}/datasets/{source.id}", "revision": commit, "files": {file.path: file.sha256 for file in files}}
        for file in files:
            path = _download(session, f"{host}/datasets/{source.id}/resolve/{commit}/{quote(file.path)}", file)
            yield from rows(path, columns)
            path.unlink()


def _files(session: requests.Session, tree: str, source: HuggingFace, split: str) -> list[File]:
    name = source.splits[split]
    pattern = source.files[split] if source.files else f"{source.config or 'default'}/{name}/*.parquet"
    folder = pattern.rpartition("/")[0]
    found, url = [], f"{tree}/{quote(folder)}" if folder else tree
    while url:
        answer = _get(session, url)
        for item in _json(answer):
            if item["type"] == "file" and fnmatch.fnmatch(item["path"], pattern):
                found.append(File(item["path"], int(item["size"]), (item.get("lfs") or {}).get("oid")))
        url = answer.links.get("next", {}).get("url", "")
    if not found:
        raise UserError(f"{tree}: found no file {pattern}; expected the split {name} of {source.id} there")
    return sorted(found)


def _download(session: requests.Session, url: str, file: File) -> Path:
    """The file in the user's cache, where a later call finds it if this one ends before the file is read."""
    path = user_cache() / "hub" / (hashlib.sha256(f"{url} {file.sha256}".encode()).hexdigest()[:32] + ".parquet")
    if path.is_file() and path.stat().st_size == file.size:
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    digest, size = hashlib.sha256(), 0
    with atomic.naming(path), atomic.replacing(path) as temporary, temporary.open("wb") as out:
        with _answered(url), _get(session, url, stream=True) as answer:
            for block in answer.iter_content(1 << 20):
                out.write(block)
                digest.update(block)
                size += len(block)
        if size != file.size:
            raise Unreachable(f"{url}: received {size:,} bytes, expected {file.size:,}")
        if file.sha256 and digest.hexdigest() != file.sha256:
            raise Unreachable(f"{url}: received sha256 {digest.hexdigest()[:16]}.., expected {file.sha256[:16]}..")
    return path


def _json(answer: requests.Response) -> Any:
    try:
        return answer.json()
    except ValueError:
        raise Unreachable(f"{answer.url}: the answer is no JSON; expected the hub's API") from None


def _get(session: requests.Session, url: str, *, stream: bool = False) -> requests.Response:
    """The answer to a request, repeated while the server is busy. Raises Unreachable, and UserError for what the hub does not have."""
    for attempt in range(TRIES):
        with _answered(url):
            answer = session.get(url, timeout=TIMEOUT, stream=stream)
        if answer.status_code == 200:
            return answer
        if answer.status_code not in (429, 500, 502, 503, 504):
            break
        if attempt < TRIES - 1:
            asked = answer.headers.get("Retry-After", "")
            time.sleep(min(LONGEST_WAIT, float(asked) if asked.isdigit() else 2.0**attempt))
    found = f"{url}: the hub answers {answer.status_code} {answer.reason}"
    if answer.status_code in (401, 403):
        raise Unreachable(f"{found}: no such dataset, or a private or gated one; accept its terms on the hub and set HF_TOKEN")
    if answer.status_code == 404:
        raise UserError(f"{found}: no such dataset, revision, configuration or split")
    raise Unreachable(f"{found}, {attempt + 1} times; try again later")


@contextlib.contextmanager
def _answered(url: str) -> Iterator[None]:
    """Re-raises faults of the connection as one line."""
    try:
        yield
    except requests.exceptions.ChunkedEncodingError as error:
        raise Unreachable(f"{url}: the server cut the answer short ({' '.join(str(error).split())[:120]})") from None
    except requests.RequestException as error:
        late = isinstance(error, requests.Timeout) or "timed out" in str(error)
        why = f" for {TIMEOUT[1]:g} s" if late else f"; is there a network? ({type(error).__name__})"
        raise Unreachable(f"{url}: no answer{why}") from None
