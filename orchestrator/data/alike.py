"""Texts that are the same, or empty, where they should not be: complete lines for `data check`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from orchestrator.data.corpus import FileReport
from orchestrator.data.hashes import file_hash


def empty(files: Sequence[FileReport]) -> list[str]:
    """Files of empty lines alone."""
    return [f"{file.path}: all {file.lines:,} lines are empty; expected text" for file in files if is_empty(file)]


def is_empty(file: FileReport) -> bool:
    return file.lines > 0 and len(file.empty) == file.lines


def sides(paths: Sequence[Path]) -> list[str]:
    """References that are the source itself. UserError where a file cannot be read."""
    source, *references = paths
    alike = [path for path in references if file_hash(path) == file_hash(source)]
    return [f"{source} and {path} hold the same text; expected a text and its translation" for path in alike]


def splits(corpus: str, sources: Mapping[str, set[bytes]]) -> list[str]:
    """Test sets whose sentences are those of valid."""
    valid = sources.get("valid")
    same = [name for name, found in sources.items() if valid and name not in ("train", "valid") and found == valid]
    return [f"{corpus}: valid and {name} hold the same sources; expected different sentences to choose by and to score on" for name in same]
