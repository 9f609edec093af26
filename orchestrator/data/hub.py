"""Datasets of the Hugging Face Hub: the library `huggingface_hub` finds and downloads the Parquet files of a split. We check their sha256.

The environment variables HF_ENDPOINT (another server) and HF_TOKEN (for private and gated datasets) are the hub's own.
"""

import contextlib
import fnmatch
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from orchestrator.data.formats import Columns, Row, rows
from orchestrator.data.integrity import sha256_of
from orchestrator.errors import UserError
from orchestrator.paths import user_cache
from orchestrator.specs.corpora import CONVERTED, HuggingFace

CLOSED = "no such dataset, or a private or gated one; accept its terms on the hub and set HF_TOKEN"
HINTS = {401: CLOSED, 403: CLOSED, 404: "no such dataset, revision, configuration or split"}


class Unreachable(UserError):
    """The source cannot deliver any split now."""


def delivered(source: HuggingFace, split: str, columns: Columns, origin: dict[str, Any]) -> Iterator[Row]:
    """Yields source and references of a split. Adds URL, revision and files to `origin`, for the record beside the text.

    Raises UserError for absent data, Unreachable for a server that does not deliver.
    """
    os.environ |= dict.fromkeys(("HF_HUB_DISABLE_PROGRESS_BARS", "HF_HUB_DISABLE_TELEMETRY", "HF_HUB_DISABLE_XET"), "1")  # read at import
    from huggingface_hub import HfApi

    endpoint = os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")
    if "@" in endpoint:
        raise UserError("HF_ENDPOINT: found a user or password in the address; expected a token in HF_TOKEN")
    api = HfApi(endpoint, token=os.environ.get("HF_TOKEN", "").strip() or False)
    url, revision = f"{api.endpoint}/datasets/{source.id}", source.revision or ("main" if source.files else CONVERTED)
    pattern = source.files[split] if source.files else f"{source.config or 'default'}/{source.splits[split]}/*.parquet"
    with _answered(f"{url}/tree/{quote(revision, safe='')}"):
        info = api.dataset_info(source.id, revision=revision, files_metadata=True, timeout=60.0)  # seconds
        listed = {file.rfilename: file.lfs and file.lfs.sha256 for file in info.siblings or ()}
        folder = user_cache() / "hub" / source.id / bytes.fromhex(str(info.sha)).hex()  # a later call finds what this one did not read
    files = {name: listed[name] for name in sorted(fnmatch.filter(listed, pattern)) if name.count("/") == pattern.count("/")}
    if not files:
        raise UserError(f"{url}/tree/{info.sha}: found no file {pattern}; expected the split {source.splits[split]} of {source.id} there")
    origin |= {"url": url, "revision": info.sha, "files": files}
    for name, expected in files.items():
        with _answered(asked := f"{url}/resolve/{info.sha}/{quote(name)}"):
            path = Path(api.hf_hub_download(source.id, name, repo_type="dataset", revision=info.sha, local_dir=folder))
        if expected and (found := sha256_of(path)) != expected:
            path.unlink()
            raise Unreachable(f"{asked}: received sha256 {found[:16]}.., expected {expected[:16]}..")
        yield from rows(path, columns)
        path.unlink()


@contextlib.contextmanager
def _answered(asked: str) -> Iterator[None]:
    """Re-raises faults of the hub and of the connection as one line: UserError for what the hub does not have, or Unreachable."""
    from httpx2 import HTTPError, InvalidURL
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    try:
        yield
    except (HTTPError, InvalidURL, OSError, ValueError, KeyError, TypeError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # a fault of the disk
        cause = error.__cause__ if isinstance(error, LocalEntryNotFoundError) else error
        if isinstance(cause, HfHubHTTPError):
            status = cause.response.status_code
            said = f"{asked}: the hub answers {status} {cause.response.reason_phrase}: {HINTS.get(status, 'try again later')}"
            raise (UserError if status == 404 else Unreachable)(said) from None
        found = str(cause).partition("\n")[0].partition("Bearer ")[0][:200]  # without a token that no header can have
        raise Unreachable(f"{asked}: expected an answer of the hub; found {type(cause).__name__}: {found}") from None
