"""Tensors as bytes: safetensors without pickle, manifests with the sha256 of every file, and fingerprints of weights."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError, TensorSpec, serialize

from orchestrator.errors import UserError
from orchestrator.files.documents import parse
from orchestrator.ledger import object_store

Tensors = dict[str, torch.Tensor]


class CorruptError(Exception):
    """Stored bytes are missing or damaged. The message is the reason, without the path."""


def pack(named: Mapping[str, torch.Tensor]) -> bytes:
    """Serialises tensors. Tied weights are stored once under each name. safetensors.torch.save takes five times as long."""
    kept = {name: tensor.detach().cpu().contiguous() for name, tensor in named.items()}  # alive while `serialize` reads their memory

    def spec(t: torch.Tensor) -> TensorSpec:
        return TensorSpec(dtype=str(t.dtype).removeprefix("torch."), shape=t.shape, data_ptr=t.data_ptr(), data_len=t.nbytes)

    return serialize({name: spec(tensor) for name, tensor in kept.items()})


def unpack(data: bytes) -> Tensors:
    try:
        return dict(safetensors.torch.load(data))
    except SafetensorError as error:
        raise CorruptError(str(error)) from error


def manifest_of(key: str, files: Mapping[str, bytes], **more: Any) -> bytes:
    """The manifest of files that belong together, of the run with this train key."""
    sums = {name: {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)} for name, data in files.items()}
    return _sealed({"files": sums, "key": key, **more})


def _sealed(manifest: Mapping[str, Any]) -> bytes:
    body = json.dumps(manifest, sort_keys=True)
    return json.dumps({"manifest": manifest, "sha256": hashlib.sha256(body.encode()).hexdigest()}, sort_keys=True).encode() + b"\n"


def read_manifest(path: Path, key: str) -> dict[str, Any]:
    """CorruptError if the manifest is missing or damaged, UserError if it is of another run."""
    try:
        data = path.read_bytes()
        manifest = dict(parse(data)["manifest"])
    except FileNotFoundError as error:
        raise CorruptError(f"{path.name} is missing") from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise CorruptError("manifest is not readable") from error
    if _sealed(manifest) != data:
        raise CorruptError("manifest is damaged")
    if manifest["key"] != key:
        raise UserError(f"{path}: tensors of run {manifest['key'][:16]}, expected {key[:16]}")
    return manifest


def read_verified(folder: Path, manifest: Mapping[str, Any]) -> dict[str, bytes]:
    """The files of a manifest by name. CorruptError if one is missing or damaged."""
    found = {}
    for name, entry in manifest["files"].items():
        path = folder / name
        if not path.exists():
            object_store.fetch(path)
        try:
            found[name] = path.read_bytes()
        except FileNotFoundError as error:
            raise CorruptError(f"{name} is missing") from error
        if hashlib.sha256(found[name]).hexdigest() != entry["sha256"]:
            raise CorruptError(f"{name}: sha256 differs from the manifest ({len(found[name])} bytes)")
    return found


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
