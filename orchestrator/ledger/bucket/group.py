"""Groups of the files in a results folder: a run (RUN16) or a sweep (sweeps/NAME). One process at a time writes a group."""

from __future__ import annotations

import os
import re
from pathlib import Path

from orchestrator.ledger.layout import belongs

_GROUP = re.compile(r"([0-9a-f]{16})(?:/.*)?|(sweeps/[^/]+?)(?:\.asha\.json|\.lock\.json|\.lock|\.json|\.stop)")


def group_of(name: str) -> str | None:
    """The group of a file, folder or lock, named relative to the ledger; None for files that stay on this machine."""
    match = _GROUP.fullmatch(name)
    return None if match is None else match[1] or match[2]


def claim_of(group: str) -> str:
    """Name of the object that says which process has the group: the record of its lock."""
    return f"{group}.lock.json" if group.startswith("sweeps/") else f"{group}/lock.json"


def is_file(name: str) -> bool:
    """Returns whether the bucket holds a file of this name."""
    return belongs(name) or (name.startswith("sweeps/") and name.endswith(".stop"))


def files_in(root: Path, group: str) -> list[str]:
    """Names, relative to the ledger, of the group's files in `root`."""
    if group.startswith("sweeps/"):
        return [name for end in (".json", ".asha.json", ".stop") if (root / (name := f"{group}{end}")).is_file()]
    paths = (Path(folder, file) for folder, _, files in os.walk(root / group) for file in files)  # a folder may be removed meanwhile
    return sorted(name for path in paths if belongs(name := path.relative_to(root).as_posix()) and not path.is_symlink())


def groups_in(root: Path) -> set[str]:
    """Every group with a folder or file in `root`."""
    found = (group_of(path.relative_to(root).as_posix()) for path in (*root.iterdir(), *root.glob("sweeps/*.json")))
    return {group for group in found if group is not None}


def on_demand(name: str) -> bool:
    """Returns whether the file is fetched only when it is read."""
    return name.endswith((".safetensors", "/journal.jsonl", "/state.json"))


def is_needed(root: Path, name: str) -> bool:
    """Returns whether a file that is fetched on demand is of use. Tensors and states whose manifest was replaced are not."""
    folder, _, file = name.rpartition("/")
    stem = file.removesuffix(".safetensors")
    manifest = "manifest" if "/ckpt/" in name else stem.rpartition("-")[0] if "/weights/" in name else stem
    return name.endswith("/journal.jsonl") or (root / folder / f"{manifest}.json").exists()
