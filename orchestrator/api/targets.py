"""What the functions of the API work on: rows by address, file or mapping, and where their data and results are."""

import hashlib
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypedDict

from orchestrator.cli.commands.request import Request
from orchestrator.errors import UserError
from orchestrator.files.folders import checked, need_folder
from orchestrator.ledger.bucket import attach
from orchestrator.specs.show import dumped
from orchestrator.sweeps.options import CACHE, RESULTS, RowOptions

Target = str | Path | Mapping[str, Any]
"""A table, row, file or folder as commands take it, or the content of a table's file as a mapping."""


class Where(TypedDict, total=False):
    """Scale and places, which every function takes by keyword. They mean what the options of the same names do.

    The folders are by default those of NMT_DATA_DIR, NMT_RESULTS and NMT_CACHE_DIR, else of the commands.
    """

    profile: str | None
    sets: list[str] | None
    data_dir: str | Path | None
    results: str | Path | None
    cache_dir: str | Path | None


def row_options(where: Where) -> RowOptions:
    """UserError for a folder that does not exist or is none; TypeError for a keyword that is none of `Where`."""
    for name in where:
        if name not in Where.__annotations__:
            raise TypeError(f"unexpected keyword argument '{name}'; expected one of {', '.join(Where.__annotations__)}")
    data_dir = where.get("data_dir") or os.environ.get("NMT_DATA_DIR")
    options = RowOptions(
        profile=where.get("profile"),
        sets=where.get("sets"),
        data_dir=None if data_dir is None else checked(data_dir, "data_dir"),
        results=attach.place(where.get("results") or os.environ.get("NMT_RESULTS") or RESULTS),
        cache_dir=checked(where.get("cache_dir") or os.environ.get("NMT_CACHE_DIR") or CACHE, "cache_dir"),
    )
    need_folder(options.data_dir, "data_dir")
    return options


def find(target: Target, where: Where, seed: int | None = None) -> Request:
    """The rows, and what finds their results. UserError for an unknown target, or one whose specs are not valid."""
    with as_text(target) as text:
        return Request.of(text, row_options(where), seed=seed)


@contextmanager
def as_text(target: Target) -> Iterator[str]:
    """The target as commands take it. A mapping becomes a file while the context lasts; its `extends` is relative to the working folder."""
    if not isinstance(target, Mapping):
        yield str(target)
        return
    content = dict(target)
    with tempfile.TemporaryDirectory(prefix="nmt-ablate-") as folder:
        if isinstance(base := content.get("extends"), str):
            content["extends"] = os.path.relpath(Path(base).absolute(), Path(folder).resolve())
        digest = hashlib.sha256(dumped(dict(target)).encode()).hexdigest()
        path = Path(folder) / f"mapping-{digest[:12]}.yaml"
        path.write_text(dumped(content), encoding="utf-8")
        try:
            yield str(path)
        except UserError as error:  # the lines of a file that the caller never wrote would say nothing
            raise UserError(*(re.sub(rf"{re.escape(str(path))}(:\d+)?", "mapping", line) for line in error.lines)) from None
