"""Compares the files of an imported run or sweep with existing ones. Read-only.

Equal bytes or records need no action, absent files are added, and a history that extends ours replaces it. Any other difference is a
conflict of the whole training, or of one decoding or score. Equal keys imply equal bits only on equal machines, so two machines that
trained the same row may conflict, and the user decides.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orchestrator.files.documents import read_bytes, read_document
from orchestrator.files.json_lines import read_lines
from orchestrator.ledger import sweep_files


@dataclass
class Merge:
    """Comparison of one run.

    new: the run does not exist here. add: files to add. conflicts: unit ("training", "decode/D16", ..) -> file names.
    ours, theirs: descriptions for messages.
    """

    run: str
    new: bool = False
    add: list[str] = field(default_factory=list)
    conflicts: dict[str, list[str]] = field(default_factory=dict)
    ours: str = ""
    theirs: str = ""

    def line(self) -> str:
        """A message about the conflicts."""
        names = [name.partition("/")[2] for names in self.conflicts.values() for name in names]
        few = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        return f"{self.run}: {few} differ{'s' if len(names) == 1 else ''}: here {self.ours}; in the archive {self.theirs}"


def compare_run(run: str, names: list[str], theirs: Path, ours: Path) -> Merge:
    """Compares the files `names` of a run. theirs, ours: the folders that contain RUN16/."""
    merge = Merge(run, ours=_describe_run(ours / run), theirs=_describe_run(theirs / run))
    existing = ours / run
    if not existing.is_dir() or not any(path for path in existing.iterdir() if not path.name.startswith("lock")):
        return Merge(run, new=not existing.is_dir(), add=names, ours=merge.ours, theirs=merge.theirs)
    is_finished, has_checkpoint = (existing / "train.json").exists(), (existing / "ckpt").is_dir()
    for name in names:
        file = name.partition("/")[2]
        if file == "journal.jsonl" or file.startswith("ckpt/"):  # the progress of an unfinished run here is never replaced
            if not is_finished and not has_checkpoint and not (ours / name).exists():
                merge.add.append(name)
            continue
        verdict = _compare_files(theirs / name, ours / name, file)
        if verdict == "add":
            merge.add.append(name)
        elif verdict == "conflict":
            merge.conflicts.setdefault(_unit(file), []).append(name)
    return merge


def compare_sweep(theirs: Path, ours: Path) -> str:
    """Returns same | add | conflict for one file of RESULTS/sweeps."""
    if not ours.exists():
        return "add"
    if read_bytes(theirs) == read_bytes(ours):
        return "same"
    if ours.name.endswith(".asha.json"):
        return "conflict"
    try:
        return "same" if _requested_rows(theirs) == _requested_rows(ours) else "conflict"
    except ValueError:
        return "conflict"


def _requested_rows(path: Path) -> list[tuple[Any, ...]]:
    """Ids, seeds and keys of the rows of a sweep."""
    return [(row["id"], row["seed"], row["keys"].get("train"), row["keys"].get("score")) for row in sweep_files.read(path)["rows"]]


def _compare_files(theirs: Path, ours: Path, file: str) -> str:
    if not ours.exists():
        return "add"
    if read_bytes(theirs) == read_bytes(ours):
        return "same"
    if file == "spec.yaml":
        return "same"  # under one key, it differs only in the name of the row that trained first
    if file == "history.jsonl":
        return _compare_histories(list(read_lines(theirs)), list(read_lines(ours)))
    if file.endswith(".json"):
        one, other = (_without_digest(read_document(path)) for path in (theirs, ours))
        if other is None:
            return "add"  # a damaged file counts as absent
        return "same" if one == other else "conflict"
    return "conflict"


def _compare_histories(theirs: list[dict[str, Any]], ours: list[dict[str, Any]]) -> str:
    if theirs[: len(ours)] == ours:
        return "add"
    return "same" if ours[: len(theirs)] == theirs else "conflict"


def _without_digest(document: dict[str, Any] | None) -> dict[str, Any] | None:
    return None if document is None else {name: value for name, value in document.items() if name != "digest"}


def _unit(file: str) -> str:
    return file.rpartition(".")[0] if file.startswith(("decode/", "score/", "tune/")) else "training"


def _describe_run(run: Path) -> str:
    """Status, steps, weights and score of a run, for messages about conflicts."""
    record = read_document(run / "train.json")
    if record is None:
        return "unfinished"
    parts = [str(record.get("status")), f"{record.get('steps')} steps", f"weights {str(record.get('weights_sha256'))[:12]}"]
    for path in sorted((run / "score").glob("*.json"))[:1]:
        parts.append(f"BLEU {json.dumps((read_document(path) or {}).get('bleu'))}")
    return ", ".join(parts)
