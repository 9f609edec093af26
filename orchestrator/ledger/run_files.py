"""The tensor files of one training in its run directory: checkpoints, snapshots for averaging and named weights."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from orchestrator.errors import UserError
from orchestrator.ledger import checkpoint, weights
from orchestrator.ledger.checkpoint import Checkpoint
from orchestrator.ledger.run_lock import RunLock
from orchestrator.ledger.weights import CorruptError


class Store:
    """Tensor files of one run. Every write checks the lock, if one is given."""

    def __init__(self, run_dir: Path, key: str, lock: RunLock | None = None) -> None:
        self.run_dir, self.key, self.lock = run_dir, key, lock

    def save(self, step: int, tensors: Mapping[str, Mapping[str, Tensor]], state: Mapping[str, Any]) -> None:
        checkpoint.save(self.run_dir / "ckpt", step, tensors, state, key=self.key, lock=self.lock)

    def latest(self, on_bad: Callable[[Path, str], None], *, repair: bool) -> Checkpoint | None:
        return checkpoint.latest_good(self.run_dir / "ckpt", on_bad, key=self.key, repair=repair)

    def save_snapshot(self, step: int, tensors: Mapping[str, Tensor], keep: int) -> None:
        weights.save_snapshot(self.run_dir / "snapshots", step, tensors, keep, key=self.key, lock=self.lock)

    def save_weights(self, name: str, tensors: Mapping[str, Tensor], meta: Mapping[str, Any]) -> None:
        weights.save_weights(self.run_dir / "weights", name, tensors, meta, key=self.key, lock=self.lock)

    def weights(self, choice: str) -> dict[str, Tensor]:
        """Loads weights of a finished training: `last`, `best`, or the float64 `average` of its snapshots. UserError if they are gone."""
        try:
            if choice == "average":
                return self._average()
            found = weights.load_weights(self.run_dir / "weights", choice, key=self.key)
        except CorruptError as error:
            raise UserError(f"{self.run_dir.name}: {choice} weights: {error}; remove the run's directory to train it again") from error
        if found is None:
            raise UserError(f"{self.run_dir.name}: no {choice} weights here; remove the run's directory to train it again")
        return found[0]

    def has_weights(self) -> bool:
        return (self.run_dir / "weights" / "last.json").exists()

    def _average(self) -> dict[str, Tensor]:
        paths = weights.snapshots(self.run_dir / "snapshots")
        if not paths:
            raise CorruptError("there are no snapshots (train.snapshots is the number to keep)")
        total: dict[str, Tensor] = {}
        for path in paths:
            for name, value in weights.load_snapshot(path, key=self.key).items():
                total[name] = value.double() + total[name] if name in total else value.double()
        return {name: (value / len(paths)).to(torch.float32) for name, value in total.items()}
