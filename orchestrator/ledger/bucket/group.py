"""Groups of the files in a results folder: a run (RUN16) or a sweep (sweeps/NAME). One process at a time writes a group."""

from __future__ import annotations

import os
import re
from pathlib import Path

from orchestrator.ledger.layout import belongs

_RUN = re.compile(r"[0-9a-f]{16}")
_LOCK = re.compile(r"(?P<run>[0-9a-f]{16})/lock|(?P<sweep>sweeps/[^/]+)\.lock|\.lifecycle\.lock")
_SWEEP_FILES = (".json", ".asha.json", ".stop")


def group_of_lock(lock: Path, root: Path) -> str | None:
    """The group that a lock file locks; "lifecycle" has no files. None for locks of this machine alone."""
    match = _LOCK.fullmatch(lock.absolute().relative_to(root).as_posix())
    return None if match is None else match["run"] or match["sweep"] or "lifecycle"


def lock_of(group: str) -> str:
    """Name of the group's lock file. The claim is the object of this name with `.json` after it."""
    return ".lifecycle.lock" if group == "lifecycle" else f"{group}.lock" if group.startswith("sweeps/") else f"{group}/lock"


def claim_of(group: str) -> str:
    """Name of the object that says which process has the group."""
    return f"{lock_of(group)}.json"


def group_of(name: str) -> str | None:
    """The group of a file or folder, named relative to the ledger."""
    first, _, rest = name.partition("/")
    if _RUN.fullmatch(first):
        return first
    if first != "sweeps" or not rest or "/" in rest:
        return None
    return next((f"sweeps/{rest.removesuffix(end)}" for end in (".asha.json", ".lock.json", ".json", ".stop") if rest.endswith(end)), None)


def is_file(name: str) -> bool:
    """Returns whether the bucket holds a file of this name (relative to the ledger)."""
    return belongs(name) or (name.startswith("sweeps/") and name.endswith(".stop"))


def files_in(root: Path, group: str) -> list[str]:
    """Names, relative to the ledger, of the group's files in `root`."""
    if group.startswith("sweeps/"):
        return [f"{group}{end}" for end in _SWEEP_FILES if (root / f"{group}{end}").is_file()]
    paths = (Path(folder, file) for folder, _, files in os.walk(root / group) for file in files)  # a folder may be removed meanwhile
    return sorted(name for path in paths if belongs(name := path.relative_to(root).as_posix()) and not path.is_symlink())


def groups_in(root: Path) -> list[str]:
    """Every group with a file in `root`."""
    runs = [path.name for path in sorted(root.iterdir()) if _RUN.fullmatch(path.name) and path.is_dir() and not path.is_symlink()]
    sweeps = sorted({group for path in (root / "sweeps").glob("*.json") if (group := group_of(f"sweeps/{path.name}"))})
    return [group for group in (*runs, *sweeps) if files_in(root, group)]


def on_demand(name: str) -> bool:
    """Returns whether the file is fetched only when it is read."""
    return name.endswith((".safetensors", "/journal.jsonl", "/state.json"))


def is_needed(root: Path, name: str) -> bool:
    """Returns whether a file that is fetched on demand is of use. Tensors and states whose manifest was replaced are not."""
    folder, _, file = name.rpartition("/")
    if name.endswith("/journal.jsonl"):
        return True
    stem = file.removesuffix(".safetensors")
    manifest = "manifest" if "/ckpt/" in name else stem.rpartition("-")[0] if "/weights/" in name else stem
    return (root / folder / f"{manifest}.json").exists()
