"""`nmt-ablate data check`: reports all errors and oddities of a corpus after one pass over each file."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orchestrator.data import corpus, expected_text
from orchestrator.data.text import CorpusText
from orchestrator.errors import UserError
from orchestrator.safe_text import log
from orchestrator.specs.corpora import REQUIRED, CorpusEntry

EMPTY = "empty"


@dataclass
class Report:
    """Result of a check. `problems` prevent the use of the corpus, `warnings` do not. Both are complete lines.

    splits: name -> {pairs, references, src_words, tgt_words, longest (in words)}; words are separated by spaces.
    """

    corpus: str
    splits: dict[str, dict[str, int]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def log(self) -> None:
        """Prints sizes and warnings on stderr."""
        for split, size in self.splits.items():
            log(f"{self.corpus} {split}: {', '.join(f'{name} {value:,}' for name, value in size.items())}")
        for line in self.warnings:
            log(f"warning: {line}")


@dataclass
class Column:
    """What was seen of one file, or of one side of a split's records. bad: fault -> numbers of the lines that have it."""

    where: str
    lines: int = 0
    words: int = 0
    longest: int = 0
    errors: list[str] = field(default_factory=list)
    bad: dict[str, list[int]] = field(default_factory=dict)
    hashes: set[bytes] = field(default_factory=set)  # 16 bytes a sentence, so that sets of millions of sentences fit in memory
    text: Any = field(default_factory=hashlib.sha256)

    def read(self, lines: Iterable[bytes], *, remember: bool) -> Column:
        """Counts lines without stopping at bad ones. remember: also collects the hashes of the sentences."""
        try:
            for line in lines:
                self.lines += 1
                self.text.update(line + b"\n")
                try:
                    words = len(line.decode("utf-8").split())
                except UnicodeDecodeError:
                    self.bad.setdefault("not UTF-8", []).append(self.lines)
                    continue
                self.words, self.longest = self.words + words, max(self.longest, words)
                if b"\0" in line:
                    self.bad.setdefault("NUL character", []).append(self.lines)
                if not words:
                    self.bad.setdefault(EMPTY, []).append(self.lines)
                if remember:
                    self.hashes.add(hashlib.blake2b(line.strip(), digest_size=16).digest())
        except UserError as error:
            self.errors += error.lines
        return self

    def fault(self, kind: str) -> str:
        numbers = self.bad[kind]
        more = f", the first of {len(numbers):,} such lines" if len(numbers) > 1 else ""
        return f"{self.where}: line {numbers[0]}: {kind}{more}"


def check(entry: CorpusEntry, data_dir: Path | None) -> Report:
    """Checks for missing files, bad encoding, NUL, empty and huge lines, unequal line counts, unexpected content and overlapping splits."""
    report, names = Report(entry.name), list(entry.splits) or list(REQUIRED)
    lacking = [name for name in entry.splits if entry.lacks([name], data_dir)]
    if {*lacking} & {*REQUIRED}:
        report.problems.append(entry.missing_message(REQUIRED, data_dir))
    if entry.needs_data_dir and (data_dir is None or not data_dir.is_dir()):
        return report
    report.warnings += [entry.missing_message([name], data_dir) for name in lacking if name not in REQUIRED]
    sources: dict[str, set[bytes]] = {}
    for name in (name for name in names if name not in lacking):
        columns = _columns(entry, data_dir, name)
        sources[name] = columns[0].hashes
        report.splits[name] = {"pairs": columns[0].lines, "references": len(columns) - 1, "src_words": columns[0].words}
        report.splits[name] |= {"tgt_words": columns[1].words, "longest": max(column.longest for column in columns)}
        _judge(name, columns, report)
    _check_overlap(report, sources)
    text = {} if report.problems else expected_text.of_files(entry, data_dir, report.splits)
    text["pairs"] = {name: split["pairs"] for name, split in report.splits.items()}
    report.warnings += expected_text.differences(entry, text) + expected_text.form_warnings(entry, data_dir)
    return report


def _columns(entry: CorpusEntry, data_dir: Path | None, name: str) -> list[Column]:
    """The source and the references of a split."""
    if entry.generated is None and entry.csv is None:
        paths = entry.locate(name, data_dir)
        return [Column(str(path)).read(corpus.iter_bytes(path), remember=i == 0) for i, path in enumerate(paths)]
    text = CorpusText(entry, data_dir)
    columns = [Column(where) for where in text.where(name)]
    try:
        for row in text.rows(name):
            for column, line in zip(columns, row, strict=True):
                column.read([line.encode()], remember=column is columns[0])
    except UserError as error:
        columns[0].errors += error.lines
    return columns


def _judge(name: str, columns: list[Column], report: Report) -> None:
    """Adds what is wrong with a split."""
    problems = [line for column in columns for line in column.errors]
    for column in columns:
        problems += [column.fault(kind) for kind in column.bad if kind != EMPTY]
        if not column.lines and not column.errors:
            problems.append(f"{column.where}: the file is empty")
        elif len(empty := column.bad.get(EMPTY, [])) == column.lines > 0:
            problems.append(f"{column.where}: all {column.lines:,} lines are empty; expected text")
        elif empty and name == "train":
            report.warnings.append(f"{column.fault(EMPTY)}; these pairs are left out")
        elif empty:
            problems.append(f"{column.fault(EMPTY)}; {name} must have none")
    if len({column.lines for column in columns}) > 1 and all(column.lines for column in columns):
        problems.append(corpus.unequal([column.where for column in columns], [column.lines for column in columns]))
    if not problems:
        source, *references = columns
        same = [column.where for column in references if column.text.digest() == source.text.digest()]
        problems += [f"{source.where} and {where} hold the same text; expected a text and its translation" for where in same]
    report.problems += problems


def _check_overlap(report: Report, sources: Mapping[str, set[bytes]]) -> None:
    """Adds a line for held-out sources that also occur in train or in another held-out split."""
    train, valid = sources.get("train", set()), sources.get("valid", set())
    for name, own in sources.items():
        if name != "train" and (shared := len(own & train)):
            share = f"{100 * shared / len(own):.1f}%"
            report.warnings.append(f"{report.corpus}: {shared:,} sources of {name} ({share}) are in train too")
        if name not in ("train", "valid") and (shared := len(own & valid)):
            report.warnings.append(f"{report.corpus}: {shared:,} sources of {name} are in valid too")
            if own == valid:
                line = f"valid and {name} hold the same sources; expected different sentences to choose by and to score on"
                report.problems.append(f"{report.corpus}: {line}")
