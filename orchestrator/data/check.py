"""`nmt-ablate data check`: the first fault of each split of a corpus, and oddities, after one pass over each file."""

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from orchestrator.data import expected_text
from orchestrator.data.oddities import Watch
from orchestrator.data.text import CorpusText
from orchestrator.errors import UserError, collecting
from orchestrator.safe_text import log
from orchestrator.specs.corpora import REQUIRED, CorpusEntry

MAX_UNKNOWN = 0.01  # share of unknown tokens or characters above which a warning is given


@dataclass
class Report:
    """Result of a check. `problems` prevent the use of the corpus, `warnings` do not. Both are complete lines.

    splits: name -> {pairs, references, src_words, tgt_words, longest (in words)}; words are separated by spaces.
    unknown: held-out split -> share of the characters of each column that train lacks.
    """

    corpus: str
    splits: dict[str, dict[str, int]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    unknown: dict[str, list[float]] = field(default_factory=dict)

    def log(self) -> None:
        """Prints sizes and warnings on stderr."""
        for split, size in self.splits.items():
            log(f"{self.corpus} {split}: {', '.join(f'{name} {value:,}' for name, value in size.items())}")
            if shares := self.unknown.get(split):
                log(f"{self.corpus} {split}: {' and '.join(f'{share:.2%}' for share in shares)} of the characters are not in train")
        log(*(f"warning: {line}" for line in self.warnings))


Characters = dict[str, list[Counter[str]]]
"""Split -> the characters of each column: of the source, and of each reference."""


def check(entry: CorpusEntry, data_dir: Path | None) -> Report:
    """Checks for missing files, bad encoding, NUL, empty and huge lines, unequal line counts, unexpected content and overlapping splits."""
    report, names = Report(entry.name), list(entry.splits) or list(REQUIRED)
    lacking = [name for name in entry.splits if entry.lacks([name], data_dir)]
    if {*lacking} & {*REQUIRED}:
        report.problems.append(entry.missing_message(REQUIRED, data_dir))
    if entry.needs_data_dir and (data_dir is None or not data_dir.is_dir()):
        return report
    report.warnings += [entry.missing_message([name], data_dir) for name in lacking if name not in REQUIRED]
    text, characters = CorpusText(entry, data_dir), Characters()
    for name in (name for name in names if name not in lacking):
        with collecting(report.problems):
            _read(text, name, report, characters)
    watch = Watch(text, list(report.splits))
    _check_overlap(report, watch.held)
    if not report.problems:
        _check_characters(report, text, characters)
    if "train" in report.splits:
        deque(watch.train(), maxlen=0)
    report.warnings += watch.warnings()
    found = {} if report.problems else expected_text.of_files(entry, data_dir, report.splits)
    found["pairs"] = {name: split["pairs"] for name, split in report.splits.items()}
    report.problems += expected_text.differences(entry, found)
    report.warnings += expected_text.form_warnings(entry, data_dir)
    return report


def _read(text: CorpusText, name: str, report: Report, characters: Characters) -> None:
    """Adds the sizes of a split to the report. Raises UserError at the first fault."""
    where, pairs, longest = text.where(name), 0, 0
    letters = characters.setdefault(name, [Counter() for _ in where])
    words, same, empty = [0] * len(where), [True] * len(where), dict[str, list[int]]()
    for pairs, row in enumerate(text.rows(name), 1):
        for i, line in enumerate(row):
            letters[i].update(line)
            count = len(line.split())
            words[i], longest, same[i] = words[i] + count, max(longest, count), same[i] and line == row[0]
            if not count:
                empty.setdefault(where[i], []).append(pairs)
    if not pairs:
        raise UserError(f"{where[0]}: the file is empty")
    for column, lines in empty.items():
        if len(lines) == pairs:
            raise UserError(f"{column}: all {pairs:,} lines are empty; expected text")
        line = f"{column}: line {lines[0]}: empty" + (f", the first of {len(lines):,} such lines" if len(lines) > 1 else "")
        if name != "train":
            raise UserError(f"{line}; {name} must have none")
        report.warnings.append(f"{line}; these pairs are left out")
    if twice := [column for column, equal in zip(where[1:], same[1:], strict=True) if equal]:
        raise UserError(f"{where[0]} and {twice[0]} hold the same text; expected a text and its translation")
    sizes = {"pairs": pairs, "references": len(where) - 1, "src_words": words[0], "tgt_words": words[1], "longest": longest}
    report.splits[name] = sizes


def _check_characters(report: Report, text: CorpusText, characters: Characters) -> None:
    """Adds the share of characters of each held-out column that its side of train lacks, and a warning if the share is large."""
    for split in (split for split in characters if split != "train"):
        report.unknown[split] = []
        for side, (column, counts) in enumerate(zip(text.where(split), characters[split], strict=True)):
            known = characters["train"][min(side, 1)]
            lacking = Counter({letter: count for letter, count in counts.items() if letter not in known})
            report.unknown[split].append(share := lacking.total() / max(1, counts.total()))
            if share > MAX_UNKNOWN:
                most = ", ".join(f"U+{ord(letter):04X}" for letter, _ in lacking.most_common(3))
                report.warnings.append(f"{column}: {share:.1%} of the characters do not occur in train, most often {most}")


def _check_overlap(report: Report, sources: Mapping[str, set[str]]) -> None:
    """Adds a line for test sources that also occur in valid, and another line if all of them do."""
    valid = sources.get("valid", set())
    for name, own in sources.items():
        if name != "valid" and (shared := len(own & valid)):
            report.warnings.append(f"{report.corpus}: {shared:,} sources of {name} are in valid too")
            if own == valid:
                line = f"valid and {name} hold the same sources; expected different sentences to choose by and to score on"
                report.problems.append(f"{report.corpus}: {line}")
