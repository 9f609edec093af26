"""First values from data: set before the first update, the same after an interruption, not over those of a parent."""

import pytest
import torch

from orchestrator.files.json_lines import executed_steps
from orchestrator.ledger.weights import weights_sha256
from orchestrator.specs.schema import RunSpec
from tests.unit.training.support import SPEC, Recorder, fit

SIDES = {side: {"num_layers": 2, "residual": {"kind": "admin"}} for side in ("encoder", "decoder")}
ADMIN = RunSpec.model_validate(SPEC.model_dump() | {"model": SPEC.model.model_dump() | SIDES | {"norm": "post"}})


def omegas(weights: dict[str, torch.Tensor]) -> list[float]:
    return [float(p.mean()) for name, p in weights.items() if name.endswith("omega")]


def test_omegas_are_profiled_once_and_survive_an_interruption(prepared, tmp_path):
    golden = fit(ADMIN, prepared, tmp_path / "golden")
    first, *later = omegas(golden.weights)
    assert abs(first - 1.0) < 0.2 and max(later) > 1.3
    with pytest.raises(KeyboardInterrupt):
        fit(ADMIN, prepared, tmp_path / "run", Recorder(stop_at=10))
    resumed = fit(ADMIN, prepared, tmp_path / "run")
    assert executed_steps(tmp_path / "run" / "journal.jsonl") == 20
    assert weights_sha256(resumed.weights) == weights_sha256(golden.weights)


def test_a_parents_omegas_stay(prepared, tmp_path):
    spec = RunSpec.model_validate(ADMIN.model_dump() | {"optim": SPEC.optim.model_dump() | {"schedule": {"kind": "fixed", "lr": 1e-12}}})
    parent = {name: p.clone() for name, p in fit(spec, prepared, tmp_path / "parent").weights.items()}
    parent |= {name: torch.full_like(p, 3.0) for name, p in parent.items() if name.endswith("omega")}
    child = fit(spec, prepared, tmp_path / "child", init_weights=parent)
    assert omegas(child.weights) == pytest.approx([3.0] * 10, abs=1e-3)
