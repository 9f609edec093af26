"""How the files of one run, or of a sweep, meet those that are there already. Looks, and changes nothing.

Same bytes, or the same record, is nothing to do; what is absent is added; a history that goes on where ours ends replaces it; anything else
is a conflict of the whole training, or of the one decoding or score. Equal keys promise equal bits on equal machines alone, so that two
machines that trained the same row do conflict: which of them counts is for a person to say.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orchestrator.files.documents import read_bytes, read_document
from orchestrator.files.json_lines import read_lines
from orchestrator.ledger.sweep_files import rows_of


@dataclass
class Merge:
    """Of one run. new: none of it is here. add: names to take over. conflicts: unit ("training", "decode/D16", ..) -> names."""

    run: str
    new: bool = False
    add: list[str] = field(default_factory=list)
    conflicts: dict[str, list[str]] = field(default_factory=dict)
    ours: str = ""
    theirs: str = ""

    def line(self) -> str:
        names = [name.partition("/")[2] for names in self.conflicts.values() for name in names]
        few = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        return f"{self.run}: {few} differ{'s' if len(names) == 1 else ''}: here {self.ours}; in the archive {self.theirs}"


def of_run(run: str, names: list[str], theirs: Path, ours: Path) -> Merge:
    """`theirs`, `ours`: the folders that hold RUN16/."""
    merge = Merge(run, ours=_told(ours / run), theirs=_told(theirs / run))
    here = ours / run
    if not here.is_dir() or not any(path for path in here.iterdir() if not path.name.startswith("lock")):
        return Merge(run, new=not here.is_dir(), add=names, ours=merge.ours, theirs=merge.theirs)
    finished_here, had_checkpoint = (here / "train.json").exists(), (here / "ckpt").is_dir()
    for name in names:
        rest = name.partition("/")[2]
        if rest == "journal.jsonl" or rest.startswith("ckpt/"):  # how far an unfinished run is: ours stays ours
            if not finished_here and not had_checkpoint and not (ours / name).exists():
                merge.add.append(name)
            continue
        verdict = _verdict(theirs / name, ours / name, rest)
        if verdict == "add":
            merge.add.append(name)
        elif verdict == "conflict":
            merge.conflicts.setdefault(_unit(rest), []).append(name)
    return merge


def of_sweep(theirs: Path, ours: Path) -> str:
    """same | add | conflict, of one file of RESULTS/sweeps."""
    if not ours.exists():
        return "add"
    if read_bytes(theirs) == read_bytes(ours):
        return "same"
    if ours.name.endswith(".asha.json"):
        return "conflict"
    try:
        return "same" if _asked(theirs) == _asked(ours) else "conflict"
    except ValueError:
        return "conflict"


def _asked(path: Path) -> list[tuple[Any, ...]]:
    """What a sweep asks for: its rows, without their labels and when it was started."""
    return [(row["id"], row["seed"], row["keys"].get("train"), row["keys"].get("score")) for row in rows_of(read_document(path))]


def _verdict(theirs: Path, ours: Path, rest: str) -> str:
    if not ours.exists():
        return "add"
    if read_bytes(theirs) == read_bytes(ours):
        return "same"
    if rest == "spec.yaml":
        return "same"  # of one key: it differs in the name of the row that trained it first
    if rest == "history.jsonl":
        return _histories(list(read_lines(theirs)), list(read_lines(ours)))
    if rest.endswith(".json"):
        one, other = (_bare(read_document(path)) for path in (theirs, ours))
        if other is None:
            return "add"  # ours is damaged: it counts as absent
        return "same" if one == other else "conflict"
    return "conflict"


def _histories(theirs: list[dict[str, Any]], ours: list[dict[str, Any]]) -> str:
    if theirs[: len(ours)] == ours:
        return "add"
    return "same" if ours[: len(theirs)] == theirs else "conflict"


def _bare(document: dict[str, Any] | None) -> dict[str, Any] | None:
    return None if document is None else {name: value for name, value in document.items() if name != "digest"}


def _unit(rest: str) -> str:
    return rest.rpartition(".")[0] if rest.startswith(("decode/", "score/", "tune/")) else "training"


def _told(run: Path) -> str:
    """A run in a few words, for whoever has to choose."""
    record = read_document(run / "train.json")
    if record is None:
        return "unfinished"
    parts = [str(record.get("status")), f"{record.get('steps')} steps", f"weights {str(record.get('weights_sha256'))[:12]}"]
    for path in sorted((run / "score").glob("*.json"))[:1]:
        parts.append(f"BLEU {json.dumps((read_document(path) or {}).get('bleu'))}")
    return ", ".join(parts)
