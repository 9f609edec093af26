"""The files of a results folder that form a group, and the subset that is consistent enough to be published together."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from orchestrator.files.documents import read_document
from orchestrator.ledger.layout import belongs
from orchestrator.ledger.manifest import CorruptError, decode_manifest

RUN = re.compile(r"[0-9a-f]{16}")
_ENDS = (".json", ".asha.json", ".stop")
_MANIFEST = re.compile(r"[^/]+/(?:ckpt/[^/]+/manifest|weights/[^/]+|snapshots/[^/]+)\.json")


def group_of_lock(lock: Path, root: Path) -> str | None:
    """The group that a lock file locks; None for locks that are local to this machine."""
    parts = lock.absolute().relative_to(root).parts
    if len(parts) == 2 and parts[1] == "lock" and RUN.fullmatch(parts[0]):
        return parts[0]
    if len(parts) == 2 and parts[0] == "sweeps" and parts[1].endswith(".lock"):
        return f"sweeps/{parts[1].removesuffix('.lock')}"
    return "lifecycle" if parts == (".lifecycle.lock",) else None


def group_of_path(path: Path, root: Path) -> str | None:
    """The group that a file or folder belongs to."""
    parts = path.absolute().relative_to(root).parts
    if parts and RUN.fullmatch(parts[0]):
        return parts[0]
    if len(parts) == 2 and parts[0] == "sweeps":
        stem = next(
            (parts[1].removesuffix(end) for end in (".asha.json", ".lock.json", ".json", ".stop", ".lock") if parts[1].endswith(end)), ""
        )
        return f"sweeps/{stem}" if stem else None
    return None


def lock_of(group: str, root: Path) -> Path:
    return root / (f"{group}.lock" if group.startswith("sweeps/") else f"{group}/lock")


def groups_in(root: Path) -> list[str]:
    """Every group with a file in `root`."""
    runs = [path.name for path in sorted(root.iterdir()) if RUN.fullmatch(path.name) and path.is_dir() and not path.is_symlink()]
    sweeps = [path.stem for path in sorted((root / "sweeps").glob("*.json")) if not path.name.endswith((".asha.json", ".lock.json"))]
    return [run for run in runs if files_in(root, run)] + [f"sweeps/{name}" for name in sweeps]


def files_in(root: Path, group: str) -> list[str]:
    """Names, relative to the ledger, of the group's files in `root`. Temporary files are excluded by their names."""
    if group.startswith("sweeps/"):
        return [f"{group}{end}" for end in _ENDS if (root / f"{group}{end}").is_file()]
    folder = root / group
    names = (path.relative_to(root).as_posix() for path in sorted(folder.rglob("*")) if path.is_file() and not path.is_symlink())
    return [name for name in names if belongs(name)]


def on_demand(name: str) -> bool:
    """Returns whether the file is fetched only on demand."""
    return name.endswith((".safetensors", "/journal.jsonl"))


def of_tensors(name: str) -> bool:
    return name.endswith(".safetensors")


def is_needed(root: Path, name: str) -> bool:
    """Returns whether the file is still of use. Tensors whose manifest was replaced by newer ones are not."""
    folder, _, file = name.rpartition("/")
    if not of_tensors(name):
        return True
    stem = file.removesuffix(".safetensors")
    slot = "manifest" if "/ckpt/" in name else stem.rpartition("-")[0] if "/weights/" in name else stem
    return (root / folder / f"{slot}.json").exists()


def append_only(name: str) -> bool:
    return name.endswith(".jsonl")


def promised(root: Path, names: list[str]) -> dict[str, dict[str, str]]:
    """File -> sha256 for each manifest among `names`. A damaged manifest promises a file that never exists."""
    found: dict[str, dict[str, str]] = {}
    for name in filter(_MANIFEST.fullmatch, names):
        folder = name.rpartition("/")[0]
        try:
            manifest = decode_manifest((root / name).read_bytes())
            found[name] = {f"{folder}/{file}": str(entry["sha256"]) for file, entry in manifest["files"].items()}
        except (CorruptError, KeyError, TypeError, AttributeError):
            found[name] = {f"{folder}/?": ""}
    return found


def consistent(root: Path, known: Mapping[str, str]) -> set[str]:
    """The files (name -> sha256) that may be visible together: no manifest without its tensors, no record without its texts."""
    names = set(known)
    stands = promised(root, sorted(names))
    kept = {name for name in names if not of_tensors(name) and "/ckpt/" not in name}
    for manifest, files in stands.items():
        if all(known.get(file) == sha for file, sha in files.items()):
            kept |= {manifest, *files}
        else:
            kept.discard(manifest)
    for name in [name for name in names if "/decode/" in name and name.endswith(".json")]:
        text = name.removesuffix(".json") + ".txt"
        record = read_document(root / name) or {}
        if record.get("has_texts", True) and record.get("hypotheses_sha256") != known.get(text, "-"):
            kept.discard(name)
    return kept


def publishing_order(name: str) -> tuple[int, str]:
    """Sort key of writing: a file comes before the records that refer to it, and train.json, which marks the run as done, last."""
    if name.endswith("/train.json"):
        return 3, name
    if "/score/" in name:
        return 2, name
    return (1 if name.endswith(".json") else 0), name
