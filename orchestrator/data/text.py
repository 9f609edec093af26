"""Raw text of a corpus from files or from the generator, one split at a time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from orchestrator.data import corpus, csv_text, sentences, toy
from orchestrator.specs.corpora import CorpusEntry, ToyParams


class RawText(Protocol):
    """Source of raw text.

    held_out: valid and the test sets. rows: (source, reference, ...) of each line; raises UserError at a bad line. raw: running text of
    each reference stream of a tokenised corpus, if it exists. where: a name for each column, for messages.
    """

    held_out: list[str]

    def rows(self, split: str) -> Iterator[tuple[str, ...]]: ...
    def raw(self, split: str) -> list[list[str]]: ...
    def where(self, split: str) -> list[str]: ...


class FileText:
    """Text in files."""

    def __init__(self, entry: CorpusEntry, data_dir: Path | None, tests: list[str]) -> None:
        self.entry, self.data_dir, self.held_out = entry, data_dir, ["valid", *tests]

    def rows(self, split: str) -> Iterator[tuple[str, ...]]:
        paths = self.entry.locate(split, self.data_dir)
        return corpus.parallel(paths) if self.entry.csv is None else self._records(split, paths[0])

    def raw(self, split: str) -> list[list[str]]:
        return [corpus.read_lines(path) for path in self.entry.raw_references(split, self.data_dir)]

    def _records(self, split: str, path: Path) -> Iterator[tuple[str, ...]]:
        """Records of a CSV file, with each document as one line."""
        entry, records = self.entry, self.entry.splits[split].records
        assert entry.csv is not None
        for texts in csv_text.rows(path, (entry.csv.src, entry.csv.tgt), None if records is None else (records[0], records[1])):
            if entry.documents is None:
                yield tuple(" ".join(text.split()) for text in texts)
            else:
                ways = (entry.documents.src, entry.documents.tgt)
                yield tuple(sentences.line_of(text, how) for text, how in zip(texts, ways, strict=True))

    def where(self, split: str) -> list[str]:
        """Paths of the columns, for messages."""
        return [str(path) for path in self.entry.locate(split, self.data_dir)]


class ToyText:
    """Text of the built-in toy corpus, generated once."""

    def __init__(self, params: ToyParams) -> None:
        self.held_out = ["valid", "test"]
        self.pairs = toy.generate(params)

    def rows(self, split: str) -> Iterator[tuple[str, ...]]:
        return iter(self.pairs[split])

    def raw(self, split: str) -> list[list[str]]:
        return []

    def where(self, split: str) -> list[str]:
        return [f"generated {split}"] * 2


def text_of(entry: CorpusEntry, data_dir: Path | None, tests: list[str]) -> RawText:
    """The text of a corpus. tests: the existing test sets."""
    if entry.generated is not None:
        return ToyText(entry.generated)
    return FileText(entry, data_dir, tests)
