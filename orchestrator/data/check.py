"""`nmt-ablate data check`: reports all errors and oddities of a corpus after one pass over each file."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from orchestrator.data import corpus, expected_text, text_form
from orchestrator.data.integrity import file_hash
from orchestrator.data.text import FileText, text_of
from orchestrator.errors import UserError
from orchestrator.specs.corpora import REQUIRED, CorpusEntry


@dataclass
class SplitReport:
    """Size of one split. Words are separated by spaces; `longest` is in words."""

    pairs: int
    references: int
    src_words: int
    tgt_words: int
    longest: int


@dataclass
class Report:
    """Result of a check. `problems` prevent the use of the corpus, `warnings` do not. Both are complete lines."""

    corpus: str
    splits: dict[str, SplitReport] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def add_empty(self, split: str, line: str) -> None:
        """Adds a line about empty text: a warning for train, a problem for the other splits."""
        if split == "train":
            self.warnings.append(f"{line}; these pairs are left out")
        else:
            self.problems.append(f"{line}; {split} must have none")


def check(entry: CorpusEntry, data_dir: Path | None) -> Report:
    """Checks for missing files, bad encoding, NUL, empty and huge lines, unequal line counts, unexpected content and overlapping splits."""
    report = Report(entry.name)
    sources: dict[str, set[bytes]] = {}
    if entry.generated is not None:
        text = text_of(entry, data_dir, [])
        for name in ("valid", "test", "train"):
            _check_records(text, name, report, sources)
    elif entry.needs_data_dir and (data_dir is None or not data_dir.is_dir()):
        report.problems.append(entry.missing_message(REQUIRED, data_dir))
    else:
        _check_files(entry, data_dir, report, sources)
    _check_overlap(report, sources)
    lines = [] if report.problems or entry.csv is not None else [name for name in report.splits if name in entry.splits]
    sums = {name: [file_hash(path) for path in entry.locate(name, data_dir)] for name in lines if entry.splits[name].sha256}
    pairs = {name: split.pairs for name, split in report.splits.items()}
    report.warnings += expected_text.differences(entry, {"pairs": pairs, "sha256": sums})
    report.warnings += text_form.warnings(entry, data_dir)
    return report


def _check_files(entry: CorpusEntry, data_dir: Path | None, report: Report, sources: dict[str, set[bytes]]) -> None:
    seen: dict[tuple[str, ...], str] = {}
    if entry.lacks(REQUIRED, data_dir):
        report.problems.append(entry.missing_message(REQUIRED, data_dir))
    for name, split in entry.splits.items():
        if entry.lacks([name], data_dir):
            if name not in REQUIRED:
                report.warnings.append(entry.missing_message([name], data_dir))
        elif entry.csv is not None:
            _check_records(FileText(entry, data_dir, []), name, report, sources)
        elif (same := seen.setdefault(tuple(split.files), name)) == name:
            _check_lines(name, entry.locate(name, data_dir), report, sources)
        else:
            report.splits[name] = report.splits[same]
            if same in ("train", "valid"):
                sources[name] = sources[same]


def _check_lines(name: str, paths: list[Path], report: Report, sources: dict[str, set[bytes]]) -> None:
    """Checks a split in files with one sentence a line."""
    marks: set[bytes] = set()
    files = [corpus.inspect(path, (lambda line: marks.add(_hash(line))) if i == 0 else None) for i, path in enumerate(paths)]
    sources[name] = marks
    report.problems += problems_of(files)
    for file in files:
        if 0 < len(file.empty) < file.lines:
            report.add_empty(name, file.empty_message())
    lines, source, target = files[0].lines, files[0].words, files[1].words
    report.splits[name] = SplitReport(lines, len(files) - 1, source, target, max(file.longest for file in files))


def _check_records(text: FileText, name: str, report: Report, sources: dict[str, set[bytes]]) -> None:
    """Checks a split that is generated or in a CSV file."""
    path, words, marks, empty, equal = text.where(name)[0], [], set(), [], 0
    try:
        for number, (source, reference) in enumerate(text.rows(name), 1):
            words.append((len(source.split()), len(reference.split())))
            marks.add(_hash(source))
            equal += source == reference
            if not min(words[-1]):
                empty.append(number)
    except UserError as error:
        report.problems += error.lines
        return
    if not words:
        report.problems.append(f"{path}: no records")
        return
    if equal == len(words):
        report.problems.append(f"{path}: source and reference are the same text in every record; expected a text and its translation")
    if empty:
        first = f"the first is number {empty[0]} of them"
        report.add_empty(name, f"{path}: {len(empty):,} of the records of {name} have an empty text, {first}")
    sources[name] = marks
    report.splits[name] = SplitReport(len(words), 1, sum(a for a, _ in words), sum(b for _, b in words), max(map(max, words)))


def problems_of(files: Sequence[corpus.FileReport]) -> list[str]:
    """A line for everything because of which parallel files cannot be used. Source first. Raises UserError if a file cannot be read."""
    problems = [line for file in files for line in file.errors]
    problems += [f"{f.path}: all {f.lines:,} lines are empty; expected text" for f in files if f.lines and len(f.empty) == f.lines]
    if len({file.lines for file in files}) > 1 and all(file.lines for file in files):
        problems.append(corpus.unequal([file.path for file in files], [file.lines for file in files]))
    if not problems:
        source, *references = (file.path for file in files)
        equal = [path for path in references if file_hash(path) == file_hash(source)]
        problems += [f"{source} and {path} hold the same text; expected a text and its translation" for path in equal]
    return problems


def _check_overlap(report: Report, sources: Mapping[str, set[bytes]]) -> None:
    """Adds a line for held-out sources that also occur in train or in another held-out split."""
    valid = sources.get("valid", set())
    tests = [name for name in sources if name not in ("train", "valid")]
    for test in tests:
        if valid and sources[test] == valid:
            line = f"valid and {test} hold the same sources; expected different sentences to choose by and to score on"
            report.problems.append(f"{report.corpus}: {line}")
    for later in (name for name in sources if name != "train"):
        if shared := len(sources[later] & sources.get("train", set())):
            share = 100 * shared / max(len(sources[later]), 1)
            report.warnings.append(f"{report.corpus}: {shared:,} sources of {later} ({share:.1f}%) are in train too")
    for test in tests:
        if shared := len(sources[test] & valid):
            report.warnings.append(f"{report.corpus}: {shared:,} sources of {test} are in valid too")


def _hash(line: str) -> bytes:
    """A 16-byte hash of a sentence, so that sets of millions of sentences fit in memory."""
    return hashlib.blake2b(line.strip().encode(), digest_size=16).digest()
