"""Compares the files of an imported run or sweep with those here. Read-only.

Equal keys imply equal bits on equal machines alone. Two machines that trained the same row may therefore differ, and the user decides.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orchestrator.files.documents import read_bytes, read_document, unsealed
from orchestrator.files.json_lines import read_lines
from orchestrator.ledger import sweep_files

OF_ONE_DECODING = ("decode/", "score/", "tune/")


@dataclass
class Merge:
    """Comparison of one run. add: files that are absent here, or histories that go on. differ: files that differ."""

    run: str
    add: list[str] = field(default_factory=list)
    differ: list[str] = field(default_factory=list)

    @property
    def of_training(self) -> bool:
        """True if the trainings differ, and not only a decoding or score."""
        return any(not _file(name).startswith(OF_ONE_DECODING) for name in self.differ)

    def line(self, theirs: Path, ours: Path) -> str:
        """A message about what differs. theirs, ours: the folders that contain the run's folder."""
        names = list(map(_file, self.differ))
        few = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        here, there = _describe_run(ours / self.run), _describe_run(theirs / self.run)
        return f"{self.run}: {few} differ{'s' if len(names) == 1 else ''}: here {here}; in the archive {there}"


def compare_run(run: str, names: list[str], theirs: Path, ours: Path) -> Merge:
    """Compares the files `names` of a run. theirs, ours: the folders that contain the run's folder."""
    merge = Merge(run)
    has_progress = any((ours / run / name).exists() for name in ("train.json", "ckpt"))
    for name in names:
        if _file(name) == "journal.jsonl" or _file(name).startswith("ckpt/"):  # never replaces the progress of an unfinished run here
            verdict = "same" if has_progress or (ours / name).exists() else "add"
        else:
            verdict = _compare_files(theirs / name, ours / name, _file(name))
        if verdict != "same":
            (merge.add if verdict == "add" else merge.differ).append(name)
    return merge


def compare_sweep(theirs: Path, ours: Path) -> str:
    """Returns same | add | differ for one file of RESULTS/sweeps."""
    if not ours.exists():
        return "add"
    if read_bytes(theirs) == read_bytes(ours):
        return "same"
    try:
        return "same" if not ours.name.endswith(".asha.json") and _requested_rows(theirs) == _requested_rows(ours) else "differ"
    except ValueError:
        return "differ"


def _requested_rows(path: Path) -> list[tuple[Any, ...]]:
    """Ids, seeds and keys of the rows of a sweep."""
    return [(row["id"], row["seed"], row["keys"].get("train"), row["keys"].get("score")) for row in sweep_files.read(path)["rows"]]


def _compare_files(theirs: Path, ours: Path, file: str) -> str:
    if not ours.exists():
        return "add"
    if read_bytes(theirs) == read_bytes(ours) or file == "spec.yaml":  # under one key it differs only in the row that trained first
        return "same"
    if file == "history.jsonl":
        one, other = list(read_lines(theirs)), list(read_lines(ours))
        return "add" if one[: len(other)] == other else "same" if other[: len(one)] == one else "differ"
    if file.endswith(".json"):
        here = read_document(ours)  # a damaged file counts as absent
        return "add" if here is None else "same" if unsealed(read_document(theirs) or {}) == unsealed(here) else "differ"
    return "differ"


def _file(name: str) -> str:
    """Name of a file in its run's folder."""
    return name.partition("/")[2]


def _describe_run(run: Path) -> str:
    """Status, steps, weights and score of a run, for messages."""
    record = read_document(run / "train.json")
    if record is None:
        return "unfinished"
    parts = [str(record.get("status")), f"{record.get('steps')} steps", f"weights {str(record.get('weights_sha256'))[:12]}"]
    for path in sorted((run / "score").glob("*.json"))[:1]:
        parts.append(f"BLEU {json.dumps((read_document(path) or {}).get('bleu'))}")
    return ", ".join(parts)
