"""The ten probing tasks of SentEval (Conneau et al. 2018): names, files and labelled sentences.

Files are UTF-8, plain or gzipped, with one instance per line in tab-separated fields: `tr`, `va` or `te`; the label; optional further
fields; the sentence. A task's instances are a data frame with the columns split, label and sentence.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from orchestrator.data.corpus import iter_lines
from orchestrator.errors import UserError
from orchestrator.files.folders import the_file
from orchestrator.specs.positions import shown

NAME = "senteval-probing"
"""Folder in the data directory."""
SOURCE = "data/probing of github.com/facebookresearch/SentEval has it"
SPLITS = ("tr", "va", "te")
MAX_SHOWN = 10
"""Number of faults of a file that are reported; the others are only counted."""


class SentEvalTask(NamedTuple):
    """One task. name: that of the toolkit; column: heading in Hao et al. 2019 (Table 5)."""

    name: str
    column: str
    file: str


TASKS = {
    task.name: task
    for task in (
        SentEvalTask("Length", "SeLen", "sentence_length.txt"),
        SentEvalTask("WordContent", "WC", "word_content.txt"),
        SentEvalTask("Depth", "TrDep", "tree_depth.txt"),
        SentEvalTask("TopConstituents", "ToCo", "top_constituents.txt"),
        SentEvalTask("BigramShift", "BShif", "bigram_shift.txt"),
        SentEvalTask("Tense", "Tense", "past_present.txt"),
        SentEvalTask("SubjNumber", "SubN", "subj_number.txt"),
        SentEvalTask("ObjNumber", "ObjN", "obj_number.txt"),
        SentEvalTask("OddManOut", "SoMo", "odd_man_out.txt"),
        SentEvalTask("CoordinationInversion", "CoIn", "coordination_inversion.txt"),
    )
}
"""The tasks in the order of the paper's columns."""


def load(tasks: Iterable[SentEvalTask], folder: Path) -> tuple[dict[str, pd.DataFrame], list[str]]:
    """Returns (task -> instances, a message for each missing file and each fault). Raises UserError for a path that is not a file."""
    sets: dict[str, pd.DataFrame] = {}
    problems: list[str] = []
    for task in tasks:
        path = the_file([folder / task.file, folder / f"{task.file}.gz"])
        if path is None:
            problems.append(f"{folder / task.file}[.gz]: no such file; {SOURCE}")
            continue
        sets[task.name], faults = read(path)
        problems += faults
    return sets, problems


def read(path: Path) -> tuple[pd.DataFrame, list[str]]:
    """Reads a file. Returns (instances, a message for each fault). Reading stops at a line that is not text."""
    rows: list[tuple[str, str, str]] = []
    faults: list[str] = []
    try:
        for number, line in enumerate(iter_lines(path), 1):
            fields = [part.strip() for part in line.split("\t")]
            if len(fields) < 3 or fields[0] not in SPLITS or not fields[1] or not fields[-1]:
                faults.append(
                    f"{path}: line {number}: found '{shown(line, 40)}'; expected tr, va or te, label and sentence, separated by tabs"
                )
            else:
                rows.append((fields[0], fields[1], fields[-1]))
    except UserError as error:
        faults += error.lines
    instances = pd.DataFrame(rows, columns=["split", "label", "sentence"])
    faults = faults or _whole(path, instances)
    more = [f"{path}: {len(faults) - MAX_SHOWN:,} more faults"] if len(faults) > MAX_SHOWN else []
    return instances, faults[:MAX_SHOWN] + more


def _whole(path: Path, instances: pd.DataFrame) -> list[str]:
    """Returns the faults of a file whose lines are valid: empty splits, a single label, labels that `tr` lacks."""
    if empty := [split for split in SPLITS if split not in set(instances["split"])]:
        return [f"{path}: found no line of {', '.join(empty)}; expected instances of tr, va and te"]
    known = set(instances.loc[instances["split"] == "tr", "label"])
    if len(known) < 2:
        return [f"{path}: found one label in tr, '{shown(known.pop(), 40)}'; expected two or more"]
    unknown = instances[~instances["label"].isin(known)].drop_duplicates("label")["label"]
    return [f"{path}: line {i + 1}: found the label '{shown(label, 40)}'; expected one that tr has" for i, label in unknown.items()]


def split_up(sentences: Sequence[str], labels: Sequence[str], held_out: float = 0.1) -> pd.DataFrame:
    """Assigns the first instances to tr, then a share of `held_out` each to va and te, without labels that tr lacks."""
    each = max(1, int(len(labels) * held_out))
    left = len(labels) - np.arange(len(labels))  # instances from this one to the end
    split = np.select([left <= each, left <= 2 * each], ["te", "va"], "tr")
    instances = pd.DataFrame({"split": split, "label": list(labels), "sentence": list(sentences)})
    return instances[instances["label"].isin(instances.loc[split == "tr", "label"])].reset_index(drop=True)
