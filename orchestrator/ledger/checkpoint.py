"""Atomic checkpoints: safetensors and JSON with a sha256 manifest, no pickle.

    RUN/ckpt/step-00000040/{model.safetensors,optimizer.safetensors,state.json,manifest.json}

`directory` is the parent of the generations (RUN/ckpt), of which two are retained. A generation is written as a temporary folder and
renamed. The manifest lists the sha256 of every file, the step and the run's train key, and is verified before anything is loaded.
Damaged files raise `CorruptError` (another generation may be intact); another run's key raises UserError. Weights alone: `weights.py`.
"""

import hashlib
import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from orchestrator.errors import UserError
from orchestrator.faults import fault
from orchestrator.files import atomic
from orchestrator.ledger.manifest import CorruptError, decode_manifest, encode_manifest, read_verified
from orchestrator.ledger.run_lock import RunLock
from orchestrator.ledger.weights import Tensors, pack, unpack

OnBad = Callable[[Path, str], None]

_GENERATION = re.compile(r"step-(\d{8,})")


@dataclass(frozen=True)
class Checkpoint:
    """A verified generation on the CPU: `tensors` by group ("model", "optimizer", ...), `state` as it was saved."""

    step: int
    tensors: dict[str, Tensors]
    state: dict[str, Any]
    path: Path


def save(
    directory: Path,
    step: int,
    tensors: Mapping[str, Mapping[str, torch.Tensor]],
    state: Mapping[str, Any],
    *,
    key: str,
    keep: int = 2,
    lock: RunLock | None = None,
) -> Path:
    """Writes the generation of `step` durably, then removes all but it and the `keep - 1` before it. Returns its directory.

    OSError (disk full) names path and bytes and leaves the older generations intact. FencedError if `lock` has a newer owner.
    """
    final = directory / f"step-{step:08d}"
    fresh = not directory.exists()
    directory.mkdir(parents=True, exist_ok=True)
    files = {f"{group}.safetensors": pack(group, named) for group, named in tensors.items()}
    files["state.json"] = json.dumps(state, sort_keys=True).encode()
    sums = {name: {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)} for name, data in files.items()}
    files["manifest.json"] = encode_manifest({"key": key, "step": step, "files": sums})
    with atomic.replacing(final, lambda: fault("ckpt_post_rename", step)) as tmp:
        with atomic.naming(final):
            fault("ckpt_pre_write", step)
            tmp.mkdir()
        for name, data in files.items():
            with atomic.naming(tmp / name, len(data)):
                atomic.write_new(tmp / name, data, lambda: fault("ckpt_pre_fsync", step))
        with atomic.naming(final, sum(map(len, files.values()))):
            atomic.fsync_dir(tmp)
            fault("ckpt_pre_rename", step)
        if lock is not None:
            lock.check()
        if final.exists():  # an older or damaged generation of this step
            _discard(final)
    if fresh:
        atomic.fsync_dir(directory.parent)
    fault("ckpt_pre_delete", step)
    kept = [number for number, _ in generations(directory) if number <= step][-keep:]  # later ones: of an abandoned timeline
    for path in [*(path for number, path in generations(directory) if number not in kept), *directory.glob("bad-step-*")]:
        _discard(path)
    fault("ckpt_post_delete", step)
    return final


def latest_good(directory: Path, on_bad: OnBad | None = None, *, key: str, repair: bool = True) -> Checkpoint | None:
    """Returns the newest intact generation, or None. `on_bad(path, reason)` is called for each bad one (default: a warning on stderr).

    `repair` (for the holder of the run's lock) removes temporary files of killed writers and renames bad generations to `bad-step-...`,
    which the next successful save removes. UserError if an intact generation belongs to another key.
    """
    if repair:
        atomic.remove_temporary(directory)
    for _, path in reversed(generations(directory)):
        try:
            return load(path, key=key)
        except CorruptError as error:
            if on_bad is None:
                print(f"warning: {path}: {error}", file=sys.stderr)
            else:
                on_bad(path, str(error))
            if repair:
                aside = path.with_name(f"bad-{path.name}")
                shutil.rmtree(aside, ignore_errors=True)
                path.rename(aside)
    return None


def load(path: Path, *, key: str) -> Checkpoint:
    """Loads and verifies one generation. CorruptError if it is damaged, UserError if it belongs to another key."""
    try:
        manifest = decode_manifest((path / "manifest.json").read_bytes())
    except FileNotFoundError as error:
        raise CorruptError("manifest.json is missing") from error
    if manifest["key"] != key:
        raise UserError(f"{path}: checkpoint of run {manifest['key'][:16]}, expected {key[:16]}")
    if path.name != f"step-{manifest['step']:08d}":
        raise CorruptError(f"manifest says step {manifest['step']}")
    tensors: dict[str, Tensors] = {}
    state: dict[str, Any] = {}
    for name, entry in manifest["files"].items():
        data = read_verified(path / name, entry["sha256"])
        if name == "state.json":
            state = json.loads(data)
        else:
            tensors[name.removesuffix(".safetensors")] = unpack(data)
    return Checkpoint(manifest["step"], tensors, state, path)


def generations(directory: Path) -> list[tuple[int, Path]]:
    """(step, path) of the complete generations, oldest first, not verified."""
    found = [(match, path) for path in (directory.iterdir() if directory.is_dir() else []) if (match := _GENERATION.fullmatch(path.name))]
    return sorted((int(match[1]), path) for match, path in found if path.is_dir())


def _discard(path: Path) -> None:
    """Removes a generation. It is renamed first, so that a partly removed one is never read."""
    doomed = path.with_name(f".{path.name}.{os.getpid()}-old.tmp")
    shutil.rmtree(doomed, ignore_errors=True)
    path.rename(doomed)
    shutil.rmtree(doomed)
