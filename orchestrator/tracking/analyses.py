"""Analyses in MLflow: one run each, tagged `nmt.kind=analysis`, with its data and figure as artifacts.

RESULTS/.tracking/analyses/ID.json lists the files of an analysis. Its run is found by the tag `nmt.analysis`, so that repeating the
analysis replaces its files, and `reconcile` rebuilds lost runs. Without the tags `nmt.sweep` and `nmt.run` it does not count as a training.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from filelock import FileLock

from orchestrator.files import atomic
from orchestrator.tracking.store import MlflowStore


def record(results: Path, name: str, kind: str, files: Sequence[Path], params: Mapping[str, Any], tags: Mapping[str, str]) -> Path:
    """Records an analysis and returns the path of the record. name: stable name of its run. tags: without the prefix `nmt.`."""
    files = [path.resolve() for path in files]
    folder = str(files[0].parent) if files else ""
    identity = hashlib.sha256(f"{kind}\n{name}\n{folder}".encode()).hexdigest()
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


def project(results: Path, uri: str | None = None, selected: Path | None = None) -> tuple[int, list[str]]:
    """Updates the store from the records, or from the `selected` one. Returns their number, and a line for each unreadable record.

    Raises the store's exceptions; the next call continues from the store's content.
    """
    notes, problems = _read([selected] if selected is not None else sorted(notes_of(results).glob("*.json")))
    if notes:
        store = MlflowStore(Path(results), uri)
        with FileLock(store.lock("analyses")):
            for note in notes:
                _project(store, note)
    return len(notes), problems


def notes_of(results: Path) -> Path:
    return Path(results) / ".tracking" / "analyses"


def _project(store: MlflowStore, note: dict[str, Any]) -> None:
    """Writes the run's identity first and the tag `nmt.projected` last, so that the next call completes an interrupted one."""
    runs = store.find({"nmt.kind": "analysis", "nmt.analysis": note["id"]})
    for duplicate in runs[1:]:
        store.delete(duplicate.info.run_id)
    content = str(note["content"])
    if runs and runs[0].data.tags.get("nmt.projected") == content:
        return
    tags = {"nmt.kind": "analysis", "nmt.analysis": note["id"], "nmt.analysis_kind": note["kind"]}
    run = store.adopt(runs[0]) if runs else store.create(note["name"], tags, note["time"])
    store.write_artifacts(run, {path.name: path for path in map(Path, note["files"]) if path.is_file()})
    store.write_status(run, "FINISHED", note["time"])
    tags |= {f"nmt.{name}": value for name, value in note["tags"].items()}
    store.write(run, spec=note["params"], tags=tags | {"nmt.projected": content})


def _read(paths: Sequence[Path]) -> tuple[list[dict[str, Any]], list[str]]:
    notes, problems = [], []
    for path in paths:
        try:
            note = json.loads(path.read_bytes())
            notes.append({name: note[name] for name in ("id", "name", "kind", "time", "files", "content", "params", "tags")})
        except (OSError, ValueError, KeyError, TypeError) as error:
            problems.append(f"{path}: not the note of an analysis ({type(error).__name__}: {error})")
    return notes, problems
