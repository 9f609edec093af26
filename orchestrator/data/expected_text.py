"""Compares the text of a corpus with its catalogue entry: numbers of pairs, and sha256 where the entry has them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from orchestrator.data.integrity import file_hash, file_lines
from orchestrator.data.store import Prepared
from orchestrator.errors import UserError
from orchestrator.specs.corpora import CorpusEntry, load_entry
from orchestrator.specs.corpus_files import CorpusFiles

TRAINING = ("train", "valid")
WORDS = {"train": "training pairs", "valid": "validation pairs"}

Text = dict[str, Any]
"""{"pairs": {split: count}, "sha256": {split: [source, each reference]}} of the text found for a corpus."""


def of_prepared(prepared: Prepared, splits: Collection[str] = TRAINING) -> Text:
    """The text of a prepared corpus. Pairs are counted before the filters of the spec."""
    sizes = {split: size for split, size in prepared.stats["splits"].items() if split in splits}
    pairs = {split: int(size["pairs"]) + sum(int(n) for n in size["dropped"].values()) for split, size in sizes.items()}
    text = prepared.manifest["text"]
    sums = {} if "generator" in text else text | prepared.manifest["tests"]
    return {"pairs": pairs, "sha256": {split: of_split for split, of_split in sums.items() if split in pairs}}


def of_files(entry: CorpusEntry, data_dir: Path | None, splits: Collection[str]) -> Text:
    """The text of the files; empty for CSV files, whose records are counted during preparation."""
    text: Text = {"pairs": {}, "sha256": {}}
    if entry.csv is not None:
        return text
    for name in (name for name in entry.splits if name in splits and not entry.lacks([name], data_dir)):
        paths = entry.locate(name, data_dir)
        text["pairs"][name] = file_lines(paths[0])
        text["sha256"][name] = [file_hash(path) for path in paths]
    return text


def unexpected(corpus: str | CorpusFiles, text: Mapping[str, Any]) -> list[str]:
    """A line for each split that differs from its catalogue entry; none for a corpus without an entry."""
    try:
        return differences(load_entry(corpus), text)
    except UserError:
        return []


def differences(entry: CorpusEntry, text: Mapping[str, Any]) -> list[str]:
    """A line for each split of the text that differs from the entry."""
    corpus = entry.name
    pairs, sums = text.get("pairs") or {}, text.get("sha256") or {}
    lines = []
    for name, split in entry.splits.items():
        found = pairs.get(name)
        if split.pairs is not None and found is not None and found != split.pairs:
            lines.append(f"{corpus} has {found:,} {WORDS.get(name, f'pairs of {name}')} here, {split.pairs:,} expected")
        elif split.sha256 is not None and name in sums and list(sums[name]) != split.sha256:
            lines.append(
                f"{corpus}: the text of {name} here is not the expected one: {_first_difference(split.files, sums[name], split.sha256)}"
            )
    return lines


def _first_difference(files: Sequence[str], found: Sequence[str], expected: Sequence[str]) -> str:
    """Describes the first file that differs from the entry."""
    for file, one, other in zip(files, found, expected, strict=False):
        if one != other:
            return f"{file} has sha256 {one[:16]}.., {other[:16]}.. expected"
    return f"{len(found)} files, {len(expected)} expected"
