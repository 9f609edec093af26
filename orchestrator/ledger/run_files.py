"""The tensor files of one training in its run directory. No pickle; every file has its sha256 in a manifest.

    ckpt/step-00000040/{model,optimizer}.safetensors  state.json  manifest.json    checkpoints, of which two are kept
    snapshots/step-00000040.{safetensors,json}                                     weights alone, for averaging
    weights/best.json -> best-SHA.safetensors                                      named weights: best, last, ema

A checkpoint is written as a temporary folder and renamed. The JSON beside weights is written last and makes them visible. Damaged files
raise `CorruptError` (another checkpoint may be intact); files of another run raise UserError.
"""

import hashlib
import json
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from orchestrator.errors import UserError
from orchestrator.faults import fault
from orchestrator.files import atomic
from orchestrator.ledger import object_store
from orchestrator.ledger.run_lock import RunLock
from orchestrator.ledger.weights import CorruptError, Tensors, manifest_of, pack, read_manifest, read_verified, unpack

KEPT = 2
"""Checkpoints."""
_STEP = re.compile(r"step-(\d{8,})")


@dataclass(frozen=True)
class Checkpoint:
    """Verified and on the CPU: `tensors` by group ("model", "optimizer", ...), `state` as it was saved."""

    step: int
    tensors: dict[str, Tensors]
    state: dict[str, Any]


class Store:
    """Tensor files of one run. Every write checks the lock, if one is given: FencedError if it has a newer owner."""

    def __init__(self, run_dir: Path, key: str, lock: RunLock | None = None) -> None:
        self.run_dir, self.key = run_dir, key
        self.checkpoints, self._snapshots, self._weights = (run_dir / name for name in ("ckpt", "snapshots", "weights"))
        self._check = None if lock is None else lock.check

    def save(self, step: int, tensors: Mapping[str, Mapping[str, Tensor]], state: Mapping[str, Any]) -> Path:
        """Writes the checkpoint of `step` durably, then removes all but it and the one before it.

        OSError (disk full) names path and bytes and leaves the older checkpoints intact.
        """
        final = self.checkpoints / f"step-{step:08d}"
        fresh = not self.checkpoints.exists()
        self.checkpoints.mkdir(parents=True, exist_ok=True)
        files = {f"{group}.safetensors": pack(named) for group, named in tensors.items()}
        files["state.json"] = json.dumps(state, sort_keys=True).encode()
        files["manifest.json"] = manifest_of(self.key, files, step=step)
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
            if self._check is not None:
                self._check()
            if final.exists():  # an older or damaged checkpoint of this step
                _discard(final)
        if fresh:
            atomic.fsync_dir(self.run_dir)
        fault("ckpt_pre_delete", step)
        there = self.generations()
        kept = [number for number in there if number <= step][-KEPT:]  # later ones: of an abandoned timeline
        for path in [*(path for number, path in there.items() if number not in kept), *self.checkpoints.glob("bad-step-*")]:
            _discard(path)
        fault("ckpt_post_delete", step)
        return final

    def latest(self, on_bad: Callable[[Path, str], None], *, repair: bool) -> Checkpoint | None:
        """Loads the newest intact checkpoint, or None. `on_bad(path, reason)` is called for each bad one.

        `repair` (for the holder of the run's lock) removes temporary files of killed writers and renames bad checkpoints to
        `bad-step-...`, which the next successful save removes.
        """
        if repair:
            atomic.remove_temporary(self.checkpoints)
        for path in reversed(self.generations().values()):
            try:
                return self._load(path)
            except CorruptError as error:
                on_bad(path, str(error))
                if repair:
                    aside = path.with_name(f"bad-{path.name}")
                    shutil.rmtree(aside, ignore_errors=True)
                    path.rename(aside)
        return None

    def _load(self, path: Path) -> Checkpoint:
        manifest = read_manifest(path / "manifest.json", self.key)
        if path.name != f"step-{manifest['step']:08d}":
            raise CorruptError(f"manifest says step {manifest['step']}")
        files = read_verified(path, manifest)
        state = json.loads(files.pop("state.json"))
        return Checkpoint(manifest["step"], {name.removesuffix(".safetensors"): unpack(data) for name, data in files.items()}, state)

    def generations(self) -> dict[int, Path]:
        """The checkpoints by step, oldest first, not verified."""
        return dict(sorted((step, path) for step, path in _steps(self.checkpoints) if path.is_dir()))

    def save_snapshot(self, step: int, tensors: Mapping[str, Tensor], keep: int) -> Path:
        """Saves the weights of `step` and keeps the last `keep` snapshots up to it. Later ones, of an abandoned timeline, are removed."""
        name = f"step-{step:08d}"
        (self._snapshots / f"{name}.json").unlink(missing_ok=True)
        path = self._put(self._snapshots / f"{name}.safetensors", name, pack(tensors), "snapshot", step)
        steps = {number for number, _ in _steps(self._snapshots)}
        for number in steps - set(sorted(number for number in steps if number <= step)[-keep:]):
            for suffix in (".json", ".safetensors"):
                (self._snapshots / f"step-{number:08d}{suffix}").unlink(missing_ok=True)
        atomic.remove_temporary(self._snapshots)
        return path

    def snapshots(self) -> list[Path]:
        """Paths of the complete snapshots (`.safetensors`), oldest first, not verified."""
        object_store.fetch(self._snapshots)
        return [path for path in sorted(self._snapshots.glob("step-*.safetensors")) if path.with_suffix(".json").exists()]

    def load_snapshot(self, path: Path) -> Tensors:
        return self._get(path.with_suffix(".json"))

    def save_weights(self, name: str, tensors: Mapping[str, Tensor], step: int) -> Path:
        """Replaces the weights `name` atomically."""
        data = pack(tensors)
        path = self._put(self._weights / f"{name}-{hashlib.sha256(data).hexdigest()[:16]}.safetensors", name, data, "weights", step)
        for other in self._weights.glob(f"{name}-*.safetensors"):
            if other != path and re.fullmatch(r"[0-9a-f]{16}", other.stem.removeprefix(f"{name}-")):
                other.unlink(missing_ok=True)
        atomic.remove_temporary(self._weights)
        return path

    def weights(self, choice: str) -> Tensors:
        """Loads weights of a finished training: `last`, `best`, `ema`, or the float64 `average` of its snapshots. UserError if gone."""
        path, again = self._weights / f"{choice}.json", "remove the run's directory to train it again"
        if choice != "average" and not path.exists():
            raise UserError(f"{self.run_dir.name}: no {choice} weights here; {again}")
        try:
            return self._average() if choice == "average" else self._get(path)
        except CorruptError as error:
            raise UserError(f"{self.run_dir.name}: {choice} weights: {error}; {again}") from error

    def has_weights(self) -> bool:
        return (self._weights / "last.json").exists()

    def _average(self) -> Tensors:
        paths = self.snapshots()
        if not paths:
            raise CorruptError("there are no snapshots (train.snapshots is the number to keep)")
        total: Tensors = {}
        for path in paths:
            for name, value in self.load_snapshot(path).items():
                total[name] = value.double() + total[name] if name in total else value.double()
        return {name: (value / len(paths)).to(torch.float32) for name, value in total.items()}

    def _put(self, path: Path, name: str, data: bytes, points: str, step: int) -> Path:
        """Writes the weights, then the `name.json` beside them that refers to them and makes them visible."""
        atomic.write_bytes(path, data, points=points, step=step, check=self._check)
        manifest = manifest_of(self.key, {path.name: data}, meta={"step": step})
        atomic.write_bytes(path.with_name(f"{name}.json"), manifest, points=f"{points}_manifest", step=step, check=self._check)
        return path

    def _get(self, path: Path) -> Tensors:
        """Loads the weights that a `name.json` refers to."""
        (data,) = read_verified(path.parent, read_manifest(path, self.key)).values()
        return unpack(data)


def _steps(folder: Path) -> list[tuple[int, Path]]:
    """(step, path) of each file or folder whose name states a step."""
    found = [(_STEP.fullmatch(path.stem), path) for path in (folder.iterdir() if folder.is_dir() else [])]
    return [(int(match[1]), path) for match, path in found if match is not None]


def _discard(path: Path) -> None:
    """Removes a checkpoint. It is renamed first, so that a partly removed one is never read."""
    shutil.rmtree(path.rename(atomic.temporary(path)))
