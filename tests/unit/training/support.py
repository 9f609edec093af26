"""A training small enough for a test: 20 updates of a 2-layer model on the built-in corpus."""

from pathlib import Path
from typing import Any

import numpy as np

from orchestrator.data.store import Pairs
from orchestrator.ledger.run_files import Store
from orchestrator.specs.schema import RunSpec
from orchestrator.training.runtime import Runtime
from orchestrator.training.trainer import Trainer

KEY = "ab" * 32

SIDES = {"encoder": {"num_layers": 2}, "decoder": {"num_layers": 2}}
DROPOUT, OFF = (dict.fromkeys(("embedding", "residual", "attention", "ffn"), rate) for rate in (0.1, 0.0))
SPEC = RunSpec.model_validate(
    {
        "data": {"corpus": "toy-smoke", "subword": {"kind": "word", "size": 300, "joint": False}},
        "batch": {"unit": "tokens", "size": 300, "accumulate": 1},
        "model": {"d_model": 16, "d_ff": 32, "num_heads": 2, "norm": "pre", "dropout": DROPOUT} | SIDES,
        "optim": {"schedule": {"kind": "inverse-sqrt", "lr": 3e-3, "warmup": 10}, "clip_norm": 1.0, "label_smoothing": 0.1},
        "train": {"max_steps": 20, "validate_every": 10, "checkpoint_every": 5, "snapshots": 2, "snapshot_every": 5},
    }
)


def changed(spec: RunSpec = SPEC, **sections: dict[str, Any]) -> RunSpec:
    data = spec.model_dump()
    for section, values in sections.items():
        data[section] = data[section] | values
    return RunSpec.model_validate(data)


def small_pairs(*lengths: tuple[int, int]) -> Pairs:
    """One pair for each (source, target)."""
    arrays = []
    for side in zip(*lengths, strict=True):
        arrays += [np.full(sum(side), 5, np.uint16), np.cumsum([0, *side])]
    return Pairs(*arrays)


class Recorder:
    """Keeps every report; `stop_at` raises there, as a kill at a report would."""

    def __init__(self, stop_at: int | None = None) -> None:
        self.reports: list[dict[str, Any]] = []
        self.stop_at = stop_at

    def __call__(self, metrics: dict[str, Any]) -> None:
        self.reports.append(metrics)
        if self.stop_at is not None and metrics["step"] >= self.stop_at:
            raise KeyboardInterrupt

    def nll(self) -> dict[int, float]:
        return {m["step"]: m["valid/nll"] for m in self.reports if "valid/nll" in m}


def fit(spec: RunSpec, prepared, run_dir: Path, recorder: Recorder | None = None, runtime: Runtime | None = None, **more):
    run_dir.mkdir(parents=True, exist_ok=True)
    return Trainer(spec, runtime or Runtime(), [recorder or Recorder()], prepared, Store(run_dir, KEY), **more).train()
