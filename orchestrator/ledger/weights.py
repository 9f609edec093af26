"""Weights on disk, and the verified files that checkpoints consist of too.

    RUN/snapshots/step-00000040.{safetensors,json}            `save_snapshot`: weights alone, for averaging
    RUN/weights/best.json -> best-SHA.safetensors             `save_weights`: a named slot (best, last)

The JSON beside the weights holds their sha256 and the run's train key; it is written last and makes them visible. Damaged files raise
`CorruptError`; another run's key raises UserError. `directory` is the parent of the entries (RUN/snapshots, RUN/weights).
"""

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError

from orchestrator.errors import UserError
from orchestrator.files import atomic
from orchestrator.ledger import object_store
from orchestrator.ledger.manifest import CorruptError, decode_manifest, encode_manifest, read_verified
from orchestrator.ledger.run_lock import RunLock

Tensors = dict[str, torch.Tensor]

_STEP = re.compile(r"step-(\d{8,})")
_NAME = re.compile(r"[a-z][a-z0-9_-]*")


def save_snapshot(
    directory: Path, step: int, weights: Mapping[str, torch.Tensor], keep: int, *, key: str, lock: RunLock | None = None
) -> Path:
    """Saves the weights of `step` and retains the last `keep` snapshots up to it. Later ones, of an abandoned timeline, are removed."""
    name = f"step-{step:08d}"
    (directory / f"{name}.json").unlink(missing_ok=True)
    path = _put(
        directory, name, f"{name}.safetensors", pack(name, weights), {"step": step}, key=key, lock=lock, points="snapshot", step=step
    )
    steps = sorted(int(match[1]) for found in directory.glob("step-*") if (match := _STEP.fullmatch(found.stem)))
    kept = sorted({number for number in steps if number <= step})[-keep:]
    for number in set(steps) - set(kept):
        for suffix in (".json", ".safetensors"):
            (directory / f"step-{number:08d}{suffix}").unlink(missing_ok=True)
    atomic.remove_temporary(directory)
    return path


def snapshots(directory: Path) -> list[Path]:
    """Paths of the complete snapshots (`.safetensors`), oldest first, not verified. `load_snapshot` loads them."""
    object_store.fetch(directory)
    return [path for path in sorted(directory.glob("step-*.safetensors")) if path.with_suffix(".json").exists()]


def load_snapshot(path: Path, *, key: str) -> Tensors:
    """Loads and verifies one snapshot. CorruptError if it is damaged, UserError if it belongs to another key."""
    found = load_weights(path.parent, path.stem, key=key)
    if found is None:
        raise CorruptError("no manifest beside the snapshot")
    return found[0]


def save_weights(
    directory: Path, name: str, tensors: Mapping[str, torch.Tensor], meta: Mapping[str, Any], *, key: str, lock: RunLock | None = None
) -> Path:
    """Replaces the slot `name` (`best`, `last`); weights and `meta` change atomically."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"slot name {name!r}")
    data = pack(name, tensors)
    path = _put(
        directory, name, f"{name}-{hashlib.sha256(data).hexdigest()[:16]}.safetensors", data, meta, key=key, lock=lock, points="weights"
    )
    for other in directory.glob(f"{name}-*.safetensors"):
        if other != path and re.fullmatch(r"[0-9a-f]{16}", other.stem.removeprefix(f"{name}-")):
            other.unlink(missing_ok=True)
    atomic.remove_temporary(directory)
    return path


def load_weights(directory: Path, name: str, *, key: str) -> tuple[Tensors, dict[str, Any]] | None:
    """Loads (weights, meta) of a slot; None if it was never saved. CorruptError if damaged, UserError if it belongs to another key."""
    path = directory / f"{name}.json"
    if not path.exists():
        return None
    entry = decode_manifest(path.read_bytes())
    if entry["key"] != key:
        raise UserError(f"{path}: weights of run {entry['key'][:16]}, expected {key[:16]}")
    ((filename, file),) = entry["files"].items()
    return unpack(read_verified(directory / filename, file["sha256"])), entry["meta"]


@torch.no_grad()
def copy_into(model: torch.nn.Module, weights: Mapping[str, torch.Tensor]) -> None:
    """Copies the weights into the model's parameters by name. KeyError if one is missing."""
    for name, parameter in model.named_parameters():
        parameter.copy_(weights[name])


def weights_sha256(state_dict: Mapping[str, torch.Tensor]) -> str:
    """Fingerprint of a state dict: sorted names with dtype, shape and bytes."""
    digest = hashlib.sha256()
    for name in sorted(state_dict):
        tensor = state_dict[name].detach().cpu().contiguous()
        digest.update(f"{name}\0{str(tensor.dtype).removeprefix('torch.')}\0{list(tensor.shape)}\0".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _put(
    directory: Path,
    name: str,
    filename: str,
    data: bytes,
    meta: Mapping[str, Any],
    *,
    key: str,
    lock: RunLock | None,
    points: str,
    step: int | None = None,
) -> Path:
    """Writes the weights, then the `name.json` that refers to them and makes them visible."""
    check = None if lock is None else lock.check
    atomic.write_bytes(directory / filename, data, points=points, step=step, check=check)
    entry = {"files": {filename: {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}}, "key": key, "meta": dict(meta)}
    atomic.write_bytes(directory / f"{name}.json", encode_manifest(entry), points=f"{points}_manifest", step=step, check=check)
    return directory / filename


def pack(group: str, named: Mapping[str, torch.Tensor]) -> bytes:
    """Serialises tensors as safetensors. Tied weights are stored once under each name."""
    if not _NAME.fullmatch(group):
        raise ValueError(f"tensor group {group!r}")
    seen: set[int] = set()
    plain: Tensors = {}
    for name, tensor in named.items():
        tensor = tensor.detach().cpu().contiguous()
        storage = tensor.untyped_storage().data_ptr()
        plain[name] = tensor.clone() if storage in seen else tensor
        seen.add(storage)
    return bytes(safetensors.torch.save(plain))


def unpack(data: bytes) -> Tensors:
    try:
        return dict(safetensors.torch.load(data))
    except SafetensorError as error:
        raise CorruptError(str(error)) from error
