"""Code shared by the workers of whole toolkits: writes the text as files of words and captures a trainer from a toolkit's main function."""

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from common import read_text

FIRST_WORD = 4
KEPT: list[tempfile.TemporaryDirectory] = []  # referenced here so that they are removed only when the worker ends


class Files(NamedTuple):
    folder: Path
    src: Path
    tgt: Path
    words: list[str]
    """The word of each id from FIRST_WORD on."""


def word(i: int) -> str:
    return f"w{i}"


def write_files(job: dict[str, Any]) -> Files:
    """Writes both sides, one sentence per line with id i as `wi`, and eight pairs for the validation sets that toolkits require."""
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
    """A BaseException, so that no toolkit catches it as an Exception."""


def catch(owner: type, method: str, run: Callable[[], Any]) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """Runs `run` until it calls `owner.method`, and returns (self, args, kwargs) of that call instead of making it.

    At that point the toolkit has built its model, optimizer, loss and batches with its own code. Raises RuntimeError without a call.
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
