"""The ten probing tasks of SentEval (Conneau et al. 2018): names, files and labelled sentences.

Files are UTF-8, plain or gzipped, with one instance per line in tab-separated fields: `tr`, `va` or `te`; the label; optional further
fields; the sentence. A task's instances are a data frame with the columns split, label and sentence.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from orchestrator.data.corpus import iter_lines
from orchestrator.errors import UserError, for_each
from orchestrator.files.folders import the_file
from orchestrator.files.listed import listed
from orchestrator.specs.positions import shown

NAME = "senteval-probing"
"""Folder in the data directory."""
SOURCE = "data/probing of github.com/facebookresearch/SentEval has it"
SPLITS = ("tr", "va", "te")
LEAST = {"tr": 100_000, "va": 10_000, "te": 10_000}
"""Instances that each of SentEval's files has at least (its README). They are ordered by split, so a cut file lacks some of te."""


class SentEvalTask(NamedTuple):
    """One task. name: that of the toolkit; column: heading in Hao et al. 2019 (Table 5)."""

    name: str
    column: str
    file: str


TASKS = {line.split()[0]: SentEvalTask(*line.split()) for line in listed(__file__, "senteval.txt")}
"""The tasks in the order of the paper's columns."""


def load(tasks: Iterable[SentEvalTask], folder: Path) -> dict[str, pd.DataFrame]:
    """Returns the instances of each task. Raises UserError with a line for each missing file and for the first fault of each other.

    In the folder NAME, a file that is shorter than SentEval's is a fault.
    """

    def instances(task: SentEvalTask) -> tuple[str, pd.DataFrame]:
        path = the_file([folder / task.file, folder / f"{task.file}.gz"])
        if path is None:
            raise UserError(f"{folder / task.file}[.gz]: no such file; {SOURCE}")
        found = read(path)
        sizes = found["split"].value_counts()
        if folder.name == NAME and (short := [split for split in SPLITS if sizes[split] < LEAST[split]]):
            few = f"found {sizes[short[-1]]:,} lines of {short[-1]}; SentEval has at least {LEAST[short[-1]]:,}"
            raise UserError(f"{path}: {few}: download it again, or use --option data=FOLDER for your own files")
        return task.name, found

    return dict(for_each(instances, tasks))


def read(path: Path) -> pd.DataFrame:
    """Reads a file. Raises UserError for its first fault: a bad line, an empty split, a single label, a label that `tr` lacks."""
    rows = [tuple(part.strip() for part in line.split("\t")) for line in iter_lines(path)]
    for number, fields in enumerate(rows, 1):
        if len(fields) < 3 or fields[0] not in SPLITS or not fields[1] or not fields[-1]:
            found = shown("\t".join(fields), 40)
            raise UserError(f"{path}: line {number}: found '{found}'; expected tr, va or te, label and sentence, separated by tabs")
    instances = pd.DataFrame([(row[0], row[1], row[-1]) for row in rows], columns=["split", "label", "sentence"])
    if empty := [split for split in SPLITS if split not in set(instances["split"])]:
        raise UserError(f"{path}: found no line of {', '.join(empty)}; expected instances of tr, va and te")
    known = set(instances.loc[instances["split"] == "tr", "label"])
    if len(known) < 2:
        raise UserError(f"{path}: found one label in tr, '{shown(known.pop(), 40)}'; expected two or more")
    for i, label in instances.loc[~instances["label"].isin(known), "label"].items():
        raise UserError(f"{path}: line {i + 1}: found the label '{shown(label, 40)}'; expected one that tr has")
    return instances
