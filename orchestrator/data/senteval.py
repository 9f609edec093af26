"""The ten probing tasks of SentEval (Conneau et al. 2018): names, files, and sentences with their labels.

Files are UTF-8, plain or gzipped, with one instance per line in tab-separated fields: `tr`, `va` or `te`; the label; optional further
fields; the sentence.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from orchestrator.data.corpus import iter_bytes
from orchestrator.errors import UserError
from orchestrator.files.no_file import the_file
from orchestrator.specs.positions import shown

NAME = "senteval-probing"
"""Folder in the data directory and name for `data get`."""
SPLITS = ("tr", "va", "te")
MAX_SHOWN = 10
"""Number of bad lines of a file that are reported; the others are only counted."""


@dataclass(frozen=True)
class SentEvalTask:
    """One task. name: that of the toolkit; column: heading in Hao et al. 2019 (Table 5)."""

    name: str
    column: str
    file: str
    about: str


TASKS = {
    task.name: task
    for task in (
        SentEvalTask("Length", "SeLen", "sentence_length.txt", "number of words, in bins"),
        SentEvalTask("WordContent", "WC", "word_content.txt", "which of many words the sentence has"),
        SentEvalTask("Depth", "TrDep", "tree_depth.txt", "depth of the syntactic tree"),
        SentEvalTask("TopConstituents", "ToCo", "top_constituents.txt", "constituents below the sentence node"),
        SentEvalTask("BigramShift", "BShif", "bigram_shift.txt", "were two neighbouring words exchanged?"),
        SentEvalTask("Tense", "Tense", "past_present.txt", "tense of the main verb"),
        SentEvalTask("SubjNumber", "SubN", "subj_number.txt", "number of the subject of the main clause"),
        SentEvalTask("ObjNumber", "ObjN", "obj_number.txt", "number of the object of the main clause"),
        SentEvalTask("OddManOut", "SoMo", "odd_man_out.txt", "was a noun or verb replaced?"),
        SentEvalTask("CoordinationInversion", "CoIn", "coordination_inversion.txt", "were two coordinate clauses exchanged?"),
    )
}
"""The tasks in the order of the paper's columns."""


@dataclass
class Part:
    """One split: sentences and their labels."""

    sentences: list[str] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.labels)


ProbingSet = dict[str, Part]
"""Maps tr, va and te to their instances."""


def find(task: SentEvalTask, folder: Path) -> Path | None:
    """The task's file, plain before gzipped, or None. Raises UserError if the paths exist but are no files."""
    return the_file([folder / task.file, folder / f"{task.file}.gz"])


def load(tasks: Iterable[SentEvalTask], folder: Path) -> dict[str, ProbingSet]:
    """Reads {task: instances}. Raises UserError with one line for each fault in each file: position, what was found and expected."""
    sets: dict[str, ProbingSet] = {}
    problems: list[str] = []
    for task in tasks:
        path = find(task, folder)
        if path is None:
            problems.append(f"{folder / task.file}[.gz]: no such file; get it with: nmt-ablate data get {NAME} --data-dir DIR")
            continue
        sets[task.name], faults = read(path)
        problems += faults
    if problems:
        raise UserError(*problems)
    return sets


def read(path: Path) -> tuple[ProbingSet, list[str]]:
    """Reads a file. Returns (instances, a message for each fault)."""
    parts: ProbingSet = {split: Part() for split in SPLITS}
    first: dict[str, int] = {}  # label of va and te -> its first line
    faults: list[str] = []
    try:
        for number, line in enumerate(iter_bytes(path), 1):
            found = _instance(line)
            if isinstance(found, str):
                faults.append(f"{path}: line {number}: {found}")
                continue
            split, label, sentence = found
            parts[split].sentences.append(sentence)
            parts[split].labels.append(label)
            if split != "tr":
                first.setdefault(label, number)
    except UserError as error:
        faults += error.lines
    more = len(faults) - MAX_SHOWN
    if more > 0:
        faults = [*faults[:MAX_SHOWN], f"{path}: {more:,} more bad lines"]
    return parts, faults or _whole(path, parts, first)


def _instance(line: bytes) -> tuple[str, str, str] | str:
    """Parses a line to (split, label, sentence), or returns a message about its fault."""
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        return f"found byte 0x{error.object[error.start]:02x} at offset {error.start}; expected UTF-8"
    fields = [part.strip() for part in text.split("\t")]
    if "\0" in text:
        return "found a NUL character; expected text"
    if len(fields) < 3:
        return f"found {len(fields)} field{'s' * (len(fields) > 1)}; expected split, label and sentence, separated by tabs"
    if fields[0] not in SPLITS:
        return f"found the split '{shown(fields[0], 20)}'; expected tr, va or te"
    if not fields[1] or not fields[-1]:
        return f"found an empty {'sentence' if fields[1] else 'label'}; expected text"
    return fields[0], fields[1], fields[-1]


def _whole(path: Path, parts: ProbingSet, first: dict[str, int]) -> list[str]:
    """Faults of a file as a whole, whose lines are valid: empty splits, a single label, unknown labels."""
    if empty := [split for split in SPLITS if not parts[split]]:
        return [f"{path}: found no line of {', '.join(empty)}; expected instances of tr, va and te"]
    known = set(parts["tr"].labels)
    if len(known) < 2:
        return [f"{path}: found one label in tr, '{shown(known.pop(), 40)}'; expected two or more"]
    unknown = sorted((number, label) for label, number in first.items() if label not in known)
    faults = [f"{path}: line {number}: found the label '{shown(label, 40)}'; expected one that tr has" for number, label in unknown]
    return faults[:MAX_SHOWN] + [f"{path}: {len(faults) - MAX_SHOWN:,} more such labels"] * (len(faults) > MAX_SHOWN)


def write(instances: ProbingSet, path: Path) -> None:
    """Writes instances in the toolkit's format. Raises ValueError for a text with a tab or a line feed."""
    lines = []
    for split in SPLITS:
        for label, sentence in zip(instances[split].labels, instances[split].sentences, strict=True):
            if any(c in label + sentence for c in "\t\n"):
                raise ValueError(f"found a tab or line feed in {sentence!r}")
            lines.append(f"{split}\t{label}\t{sentence}\n")
    path.write_text("".join(lines), encoding="utf-8", newline="\n")


def split_up(sentences: Sequence[str], labels: Sequence[str], held_out: float = 0.1) -> ProbingSet:
    """Assigns the first instances to tr, then a share of `held_out` each to va and te, without labels that tr lacks."""
    each = max(1, int(len(labels) * held_out))
    cuts = {"tr": slice(0, len(labels) - 2 * each), "va": slice(len(labels) - 2 * each, len(labels) - each)}
    cuts["te"] = slice(len(labels) - each, len(labels))
    known = set(labels[cuts["tr"]])
    parts = {split: Part() for split in SPLITS}
    for split, cut in cuts.items():
        for sentence, label in zip(sentences[cut], labels[cut], strict=True):
            if label in known:
                parts[split].sentences.append(sentence)
                parts[split].labels.append(label)
    return parts
