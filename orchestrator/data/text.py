"""Raw text of a corpus from files or from the generator, one split at a time."""

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain, islice
from pathlib import Path

from orchestrator.data import corpus, sentences, toy
from orchestrator.data.corpus import open_text
from orchestrator.data.progress import tracked
from orchestrator.errors import UserError
from orchestrator.specs.corpora import CorpusEntry
from orchestrator.specs.positions import shown
from orchestrator.specs.text_form import MARKS, Pieces, join, normalised

HEAD, MIN_LINES, MIN_SHARE = 3000, 3, 0.01  # lines that are read, and how many of them have a mark in a text of pieces


class CorpusText:
    """Text in files, or of the built-in languages. held_out: valid and the test sets."""

    def __init__(self, entry: CorpusEntry, data_dir: Path | None, tests: Sequence[str] = ()) -> None:
        self.entry, self.data_dir = entry, data_dir
        self.held_out = ["valid", *(tests if entry.generated is None else ["test"])]

    @cached_property
    def _generated(self) -> dict[str, list[tuple[str, str]]]:
        assert self.entry.generated is not None
        return toy.generate(self.entry.generated)

    def rows(self, split: str) -> Iterator[tuple[str, ...]]:
        """(source, reference, ...) of each line, with pieces joined. Raises UserError at a bad line, and for text in undeclared pieces."""
        if self.entry.generated is not None:
            return iter(self._generated[split])
        paths = self.entry.locate(split, self.data_dir)
        rows = corpus.parallel(paths) if self.entry.csv is None else self._records(split, paths[0])
        if split == "train":
            rows = tracked(rows, f"reading {self.entry.name}", self.entry.splits[split].pairs)
        rows = joined_pieces(rows, self.entry.pieces, self.where(split))
        return rows if (form := self.entry.normal_form) is None else (tuple(normalised(row, form)) for row in rows)

    def raw(self, split: str) -> list[list[str]]:
        """Running text of each reference stream of a tokenised corpus, if it exists."""
        paths = [] if self.entry.generated is not None else self.entry.raw_references(split, self.data_dir)
        return [normalised(corpus.read_lines(path), self.entry.normal_form) for path in paths]

    def where(self, split: str) -> list[str]:
        """A name for each column, for messages."""
        if self.entry.generated is not None:
            return [f"generated {split}"] * 2
        paths = self.entry.locate(split, self.data_dir)
        columns = ["", ""] if self.entry.csv is None else [f", column {self.entry.csv.src}", f", column {self.entry.csv.tgt}"]
        return [f"{path}{columns[i > 0]}" for i, path in enumerate(paths)]

    def _records(self, split: str, path: Path) -> Iterator[tuple[str, ...]]:
        """Records of a CSV file, with each document as one line."""
        entry, records = self.entry, self.entry.splits[split].records
        assert entry.csv is not None
        for src, tgt in csv_rows(path, (entry.csv.src, entry.csv.tgt), records):
            if entry.documents is None:
                yield " ".join(src.replace("\0", " ").split()), " ".join(tgt.replace("\0", " ").split())
            else:
                yield sentences.line_of(src, entry.documents.src), sentences.line_of(tgt, entry.documents.tgt)


def joined_pieces(rows: Iterable[tuple[str, ...]], pieces: Pieces | None, where: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yields the rows with the declared `pieces` joined. Raises UserError for other pieces in a column; `where` names the columns."""
    rows = iter(rows)
    head = list(islice(rows, HEAD))
    for name, lines in zip(where, zip(*head, strict=True), strict=False):
        for kind, mark in MARKS.items():
            found = [number for number, line in enumerate(lines, 1) if mark.search(line)]
            if kind != pieces and len(found) >= max(MIN_SHARE * len(lines), min(MIN_LINES, len(lines))):
                some = f"{len(found):,} of {len(lines):,} lines are cut into subwords ({shown(lines[found[0] - 1], 60)})"
                remedy = f"or pieces: {kind} in the corpus's file (data add --pieces {kind}), which joins them"
                raise UserError(f"{name}: line {found[0]}: {some}; expected whole words, {remedy}")
    for row in chain(head, rows):
        yield row if pieces is None else tuple(join(line, pieces) for line in row)


def csv_rows(path: Path, columns: tuple[str, str], records: Sequence[int] | None = None) -> Iterator[tuple[str, str]]:
    """Yields (source, reference) of each record, or of records `records[0]` .. `records[1]` - 1, counted from 0 without the header.

    Raises UserError for missing columns, a record without them, text that is not UTF-8, and fewer records than `records` needs.
    """
    csv.field_size_limit(10_000_000)  # characters
    start, stop = records or (0, None)
    number = 0
    try:
        with open_text(path) as raw, io.TextIOWrapper(raw, encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file)
            found = reader.fieldnames or []
            if lacking := [name for name in columns if name not in found]:
                known = ", ".join(name[:40] for name in found[:10]) or "none"
                raise UserError(f"{path}: no column {lacking[0]!r}; its columns are {known}")
            if twice := [name for name in columns if found.count(name) > 1]:
                raise UserError(f"{path}: found {found.count(twice[0])} columns {twice[0]!r}; expected one")
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
