"""What the workers of whole toolkits share: the text as files of words, and how to take a trainer out of its toolkit's main function."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from common import read_text

FIRST_WORD = 4
KEPT: list[tempfile.TemporaryDirectory] = []  # removed when the worker ends


class Files(NamedTuple):
    folder: Path
    src: Path
    tgt: Path
    words: list[str]
    """Word of each id from FIRST_WORD on."""


def word(i: int) -> str:
    return f"w{i}"


def write_files(job: dict[str, Any]) -> Files:
    """Both sides, one sentence a line, the id i as wi; and a few pairs for the validation that toolkits insist on."""
    KEPT.append(tempfile.TemporaryDirectory(prefix="peer-"))
    folder = Path(KEPT[-1].name)
    pairs = read_text(job)
    for side, name in enumerate(("src", "tgt")):
        lines = [" ".join(map(word, pair[side])) for pair in pairs]
        (folder / name).write_text("\n".join(lines) + "\n")
        (folder / f"valid.{name}").write_text("\n".join(lines[:8]) + "\n")
    return Files(folder, folder / "src", folder / "tgt", [word(i) for i in range(FIRST_WORD, job["size"]["vocab"])])


def write_json(path: Path, value: Any) -> Path:
    path.write_text(json.dumps(value))
    return path


class _Caught(BaseException):
    """Not an Exception, so that no toolkit handles it."""


def catch(owner: type, method: str, run: Callable[[], Any]) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """(self, args, kwargs) of the first call of `owner.method` while `run` runs; the call itself does not take place.

    So the toolkit has built its model, optimizer, loss and batches by its own code, and we go on from there.
    """
    found: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = []

    def stop(self: Any, *args: Any, **kwargs: Any) -> None:
        found.append((self, args, kwargs))
        raise _Caught

    original = getattr(owner, method)
    setattr(owner, method, stop)
    try:
        run()
    except _Caught:
        return found[0]
    finally:
        setattr(owner, method, original)
    raise RuntimeError(f"{owner.__name__}.{method} was never called")
