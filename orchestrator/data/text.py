"""Raw text of a corpus from files or from the generator, one split at a time."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from orchestrator.data import corpus, sentences, toy
from orchestrator.data.corpus import open_text
from orchestrator.errors import UserError
from orchestrator.specs.corpora import CorpusEntry, ToyParams

MAX_FIELD = 10_000_000  # characters of a CSV field


class FileText:
    """Text in files.

    held_out: valid and the test sets. rows: (source, reference, ...) of each line; raises UserError at a bad line. raw: running text of
    each reference stream of a tokenised corpus, if it exists. where: a name for each column, for messages.
    """

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
        for texts in csv_rows(path, (entry.csv.src, entry.csv.tgt), None if records is None else (records[0], records[1])):
            if entry.documents is None:
                yield tuple(" ".join(text.split()) for text in texts)
            else:
                ways = (entry.documents.src, entry.documents.tgt)
                yield tuple(sentences.line_of(text, how) for text, how in zip(texts, ways, strict=True))

    def where(self, split: str) -> list[str]:
        paths = self.entry.locate(split, self.data_dir)
        columns = ["", ""] if self.entry.csv is None else [f", column {self.entry.csv.src}", f", column {self.entry.csv.tgt}"]
        return [f"{path}{columns[i > 0]}" for i, path in enumerate(paths)]


class ToyText(FileText):
    """Text of the built-in toy corpus, generated once."""

    def __init__(self, params: ToyParams) -> None:
        self.held_out, self.pairs = ["valid", "test"], toy.generate(params)

    def rows(self, split: str) -> Iterator[tuple[str, ...]]:
        return iter(self.pairs[split])

    def raw(self, split: str) -> list[list[str]]:
        return []

    def where(self, split: str) -> list[str]:
        return [f"generated {split}"] * 2


def text_of(entry: CorpusEntry, data_dir: Path | None, tests: list[str]) -> FileText:
    """The text of a corpus. tests: the existing test sets."""
    return FileText(entry, data_dir, tests) if entry.generated is None else ToyText(entry.generated)


def csv_rows(path: Path, columns: tuple[str, str], records: tuple[int, int] | None = None) -> Iterator[tuple[str, str]]:
    """Yields (source, reference) of each record, or of records `records[0]` .. `records[1]` - 1, counted from 0 without the header.

    Raises UserError for missing columns, a record without them, text that is not UTF-8, and fewer records than `records` needs.
    """
    csv.field_size_limit(MAX_FIELD)
    start, stop = records or (0, None)
    number = 0
    try:
        with open_text(path) as raw, io.TextIOWrapper(raw, encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file)
            found = reader.fieldnames or []
            if lacking := [name for name in columns if name not in found]:
                raise UserError(
                    f"{path}: no column {lacking[0]!r}; its columns are {', '.join(name[:40] for name in found[:10]) or 'none'}"
                )
            for number, record in enumerate(islice(reader, start, stop), 1):
                source, reference = (record[name] for name in columns)
                if source is None or reference is None:
                    raise UserError(f"{path}: record {start + number} (it ends in line {reader.line_num}) lacks columns of the header")
                yield source, reference
    except UnicodeDecodeError:
        raise UserError(f"{path}: record {start + number + 1} or soon after is not UTF-8") from None
    except csv.Error as error:
        raise UserError(f"{path}: record {start + number + 1}: {error}") from None
    if stop is not None and number < stop - start:
        raise UserError(f"{path}: {start + number:,} records; expected at least {stop:,}")
