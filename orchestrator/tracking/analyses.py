"""Analyses in MLflow: a run of its own for each, tagged `nmt.kind=analysis`, with its data and figure as artifacts.

The truth is RESULTS/.tracking/analyses/ID.json, which says what there is and where its files lie; a run is found by its tag
`nmt.analysis`, so that the same analysis done again replaces the files of its run, and `reconcile` rebuilds what is lost.
They carry no `nmt.sweep` and no `nmt.run`: nothing that counts trainings sees them.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from orchestrator.files import atomic
from orchestrator.tracking.ledger import file_lock
from orchestrator.tracking.store import Child, Store


def record(results: Path, name: str, kind: str, files: Sequence[Path], params: Mapping[str, Any], tags: Mapping[str, str]) -> Path:
    """Notes an analysis durably -> the note's path. name: of its run, stable. `tags` without their prefix `nmt.`."""
    files = [path.resolve() for path in files]
    place = str(files[0].parent) if files else ""
    identity = hashlib.sha256(f"{kind}\n{name}\n{place}".encode()).hexdigest()
    content = [hashlib.sha256(path.read_bytes()).hexdigest() for path in files]
    note = {
        "id": identity,
        "name": name,
        "kind": kind,
        "time": int(time.time() * 1000),
        "files": [str(path) for path in files],
        "content": hashlib.sha256("\n".join(content).encode()).hexdigest(),
        "params": atomic.plain(params),
        "tags": dict(tags),
    }
    path = notes_of(results) / f"{identity[:16]}.json"
    atomic.write_json(path, note)
    return path


def project(results: Path, uri: str | None = None, only: Path | None = None) -> tuple[int, list[str]]:
    """Brings the store up to the notes (`only`: to one of them) -> analyses in it, and a line for each note that cannot be read.

    Raises what the store raises; the next call starts from what is in it.
    """
    notes, problems = _read([only] if only is not None else sorted(notes_of(results).glob("*.json")))
    if notes:
        store = Store(Path(results), uri)
        with file_lock(store.lock("analyses")):
            known = _known(store)
            for note in notes:
                _project(store, note, known.get(note["id"], []))
    return len(notes), problems


def notes_of(results: Path) -> Path:
    return Path(results) / ".tracking" / "analyses"


def _project(store: Store, note: dict[str, Any], runs: list[Any]) -> None:
    """The run's identity first, the mark `nmt.projected` last: whatever is cut off is written by the next call."""
    for double in runs[1:]:
        store.delete(double.info.run_id)
    mark = str(note["content"])
    if runs and runs[0].data.tags.get("nmt.projected") == mark:
        return
    tags = {"nmt.kind": "analysis", "nmt.analysis": note["id"], "nmt.analysis_kind": note["kind"]}
    run: Child = store.adopt(runs[0]) if runs else store.create(note["name"], tags, note["time"])
    store.write_artifacts(run, {path.name: path for path in map(Path, note["files"]) if path.is_file()})
    store.write_status(run, "FINISHED", note["time"])
    tags |= {f"nmt.{name}": value for name, value in note["tags"].items()}
    store.write(run, spec=note["params"], tags=tags | {"nmt.projected": mark})


def _known(store: Store) -> dict[str, list[Any]]:
    """Identity -> its runs, oldest first."""
    found: dict[str, list[Any]] = {}
    for run in store.find({"nmt.kind": "analysis"}):
        found.setdefault(run.data.tags.get("nmt.analysis", ""), []).append(run)
    return found


def _read(paths: Sequence[Path]) -> tuple[list[dict[str, Any]], list[str]]:
    notes, problems = [], []
    for path in paths:
        try:
            note = json.loads(path.read_bytes())
            notes.append({name: note[name] for name in ("id", "name", "kind", "time", "files", "content", "params", "tags")})
        except (OSError, ValueError, KeyError, TypeError) as error:
            problems.append(f"{path}: not the note of an analysis ({type(error).__name__}: {error})")
    return notes, problems
