"""A corpus given by the paths of its files, in place of the name of an entry."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import Discriminator, Field, Tag

from orchestrator.specs.base import Strict

SPLITS = ("train", "valid", "test")
Files = Annotated[list[str], Field(min_length=2)]


class CorpusFiles(Strict):
    """Parallel text with one sentence per line. Each split is a list: the source file, then its references, plain or gzipped."""

    src: str
    """Language code of the sources (ISO 639-1), such as ja."""
    tgt: str
    """Language code of the references, which decides the tokenisation of BLEU."""
    train: Files
    """Files of the training text; paths are relative to the table's file."""
    valid: Files
    """Files of the validation text, by which checkpoints are chosen."""
    test: Files
    """Files of the test set."""

    def __str__(self) -> str:
        return self.train[0]

    def __hash__(self) -> int:
        return hash(self.model_dump_json())


def _tag(value: Any) -> str:
    return "dict" if isinstance(value, (dict, CorpusFiles)) else "str"


Corpus = Annotated[Annotated[str, Tag("str")] | Annotated[CorpusFiles, Tag("dict")], Discriminator(_tag)]
"""The name of an entry, or files. Tagged by type, so that a wrong value has one message."""


def make_absolute(data: Any, folder: Path) -> None:
    """Makes the paths of every `data.corpus` mapping of a table's content absolute, in place: its own and those of rows and templates."""
    if not isinstance(data, dict):
        return
    named = [rows for rows in (data.get("rows"), data.get("templates")) if isinstance(rows, dict)]
    for part in (data, *(one for rows in named for one in rows.values() if isinstance(one, dict))):
        corpus = part["data"].get("corpus") if isinstance(part.get("data"), dict) else None
        for split in SPLITS:
            if isinstance(corpus, dict) and isinstance(paths := corpus.get(split), list):
                corpus[split] = [str((folder / path).resolve()) if isinstance(path, str) and "\0" not in path else path for path in paths]
