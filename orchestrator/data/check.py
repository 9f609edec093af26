"""`nmt-ablate data check`: reports all errors and oddities of a corpus after one pass over each file."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from orchestrator.data import corpus, text_form, toy
from orchestrator.data.hashes import file_hash
from orchestrator.data.text import FileText
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


def check(entry: CorpusEntry, data_dir: Path | None) -> Report:
    """Checks for missing files, bad encoding, NUL, empty and huge lines, unequal line counts, unexpected content and overlapping splits."""
    report = Report(entry.name)
    sources: dict[str, set[bytes]] = {}
    if entry.generated is not None:
        for name, pairs in toy.generate(entry.generated).items():
            words = [(len(a.split()), len(b.split())) for a, b in pairs]
            longest = max(max(pair) for pair in words)
            report.splits[name] = SplitReport(len(pairs), 1, sum(a for a, _ in words), sum(b for _, b in words), longest)
            sources[name] = {_hash(a) for a, _ in pairs}
    elif entry.needs_data_dir and (data_dir is None or not data_dir.is_dir()):
        report.problems.append(entry.missing_message(REQUIRED, data_dir))
    else:
        _check_files(entry, data_dir, report, sources)
    _check_overlap(report, sources)
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
            continue
        paths = entry.locate(name, data_dir)
        if entry.csv is None and (same := seen.setdefault(tuple(split.files), name)) != name:
            if same in sources and same in ("train", "valid"):
                sources[name] = sources[same]
            if same in report.splits:
                report.splits[name] = report.splits[same]
            continue
        if entry.csv is not None:
            _check_records(entry, name, paths[0], data_dir, report, sources)
            continue
        marks: set[bytes] = set()
        files = [corpus.inspect(path, _adder(marks) if i == 0 else None) for i, path in enumerate(paths)]
        sources[name] = marks
        _judge(name, files, report)
        if not any(file.errors for file in files):
            report.problems += equal_sides(paths)
        counts = [file.lines for file in files]
        target = files[1]
        report.splits[name] = SplitReport(counts[0], len(files) - 1, files[0].words, target.words, max(f.longest for f in files))
        if split.pairs is not None and counts[0] != split.pairs:
            report.warnings.append(f"{paths[0]}: {counts[0]:,} lines; {split.pairs:,} are usual for {entry.name} {name}")
        if split.sha256 is not None and not any(file.errors for file in files):
            for path, expected in zip(paths, split.sha256, strict=True):
                if (found := file_hash(path)) != expected:
                    report.warnings.append(f"{path}: sha256 {found[:16]}.. is not the usual {expected[:16]}..; figures may not compare")


def _check_records(
    entry: CorpusEntry, name: str, path: Path, data_dir: Path | None, report: Report, sources: dict[str, set[bytes]]
) -> None:
    """Checks a split in a CSV file."""
    split, words, marks, empty, equal = entry.splits[name], [], set(), [], 0
    try:
        for number, (source, reference) in enumerate(FileText(entry, data_dir, []).rows(name), 1):
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
        kept = "these pairs are left out" if name == "train" else f"{name} must have none"
        line = f"{path}: {len(empty):,} of the records of {name} have an empty text, the first is number {empty[0]} of them; {kept}"
        (report.warnings if name == "train" else report.problems).append(line)
    sources[name] = marks
    longest = max(max(pair) for pair in words)
    report.splits[name] = SplitReport(len(words), 1, sum(a for a, _ in words), sum(b for _, b in words), longest)
    if split.pairs is not None and len(words) != split.pairs:
        report.warnings.append(f"{path}: {len(words):,} records; {split.pairs:,} are usual for {entry.name} {name}")


def _judge(name: str, files: list[corpus.FileReport], report: Report) -> None:
    """Adds the problems and warnings of the files of one split."""
    report.problems += empty_files(files)
    for file in files:
        report.problems += file.errors
        if file.empty and not _is_empty(file):
            held_out = name != "train"
            consequence = f"{name} must have none" if held_out else "these pairs are left out"
            (report.problems if held_out else report.warnings).append(f"{file.empty_message()}; {consequence}")
    if len({file.lines for file in files}) > 1 and all(file.lines for file in files):
        report.problems.append(corpus.unequal([file.path for file in files], [file.lines for file in files]))


def _check_overlap(report: Report, sources: dict[str, set[bytes]]) -> None:
    """Adds a line for held-out sources that also occur in train or in another held-out split."""
    report.problems += _equal_splits(report.corpus, sources)
    for later in (name for name in sources if name != "train"):
        if shared := len(sources[later] & sources.get("train", set())):
            share = 100 * shared / max(len(sources[later]), 1)
            report.warnings.append(f"{report.corpus}: {shared:,} sources of {later} ({share:.1f}%) are in train too")
    for test in (name for name in sources if name not in ("train", "valid")):
        if shared := len(sources[test] & sources.get("valid", set())):
            report.warnings.append(f"{report.corpus}: {shared:,} sources of {test} are in valid too")


def _adder(hashes: set[bytes]) -> Callable[[str], None]:
    def add(line: str) -> None:
        hashes.add(_hash(line))

    return add


def _hash(line: str) -> bytes:
    """A 16-byte hash of a sentence, so that sets of millions of sentences fit in memory."""
    return hashlib.blake2b(line.strip().encode(), digest_size=16).digest()


def empty_files(files: Sequence[corpus.FileReport]) -> list[str]:
    """A line for each file that has only empty lines."""
    return [f"{file.path}: all {file.lines:,} lines are empty; expected text" for file in files if _is_empty(file)]


def _is_empty(file: corpus.FileReport) -> bool:
    return file.lines > 0 and len(file.empty) == file.lines


def equal_sides(paths: Sequence[Path]) -> list[str]:
    """A line for each reference that equals the source. Raises UserError if a file cannot be read."""
    source, *references = paths
    equal = [path for path in references if file_hash(path) == file_hash(source)]
    return [f"{source} and {path} hold the same text; expected a text and its translation" for path in equal]


def _equal_splits(name: str, sources: Mapping[str, set[bytes]]) -> list[str]:
    """A line for each test set whose sources equal those of valid."""
    valid = sources.get("valid")
    tests = [split for split, lines in sources.items() if valid and split not in ("train", "valid") and lines == valid]
    return [f"{name}: valid and {test} hold the same sources; expected different sentences to choose by and to score on" for test in tests]
