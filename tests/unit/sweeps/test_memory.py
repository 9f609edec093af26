"""The estimate against the peak of a real training step, in a process of its own."""

import json
import os
import subprocess
import sys

import pytest
import torch

from models.transformer import build
from orchestrator.specs.schema import RunSpec
from orchestrator.sweeps.memory import PROCESS, estimate
from tests.unit.models.test_depth import saved
from tests.unit.training.support import changed

PROBE = """
import json, sys, torch
from models.transformer import build
from orchestrator import cpu
from orchestrator.training.objective import Normalizer, Objective
from orchestrator.training.optim import build_optimizer
from orchestrator.specs.schema import RunSpec

def status(name):
    return next(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith(name))

given = json.loads(sys.argv[1])
spec = RunSpec.model_validate(given["spec"])
cpu.use(1)
vocabulary, pairs, length = given["vocabulary"], given["pairs"], given["length"]
before = status("VmRSS")
model = build(spec.model.model_dump(), vocabulary, vocabulary, 1)
optimizer, objective = build_optimizer(model, spec.optim), Objective(model, 0.1)
for _ in range(2):
    src, tgt_in, tgt_out = (torch.randint(4, vocabulary, (pairs, length)) for _ in range(3))
    model.zero_grad()
    with torch.autocast("cpu", torch.bfloat16, enabled=spec.train.precision == "bf16"):
        objective(src, tgt_in, tgt_out, Normalizer(src.numel(), src.numel(), 1.0))[0].backward()
    optimizer.step()
snapshot = {name: p.detach().clone() for name, p in model.named_parameters()}
print(json.dumps({"params": sum(p.numel() for p in model.parameters()), "peak": status("VmHWM") - before, "before": before}))
"""


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="peaks are read from /proc")  # noqa: PTH110
@pytest.mark.parametrize(("d", "layers", "vocabulary", "pairs"), [(128, 6, 4000, 32), (256, 2, 16000, 4)])  # activations, parameters
def test_the_estimate_is_near_the_peak(repository, d, layers, vocabulary, pairs):
    model = {"d_model": d, "d_ff": 4 * d, "num_heads": 4, "norm": "pre"} | {side: {"num_layers": layers} for side in ("encoder", "decoder")}
    spec = {"data": {"corpus": "toy-smoke"}, "model": model, "batch": {"unit": "tokens", "size": pairs * 25}, "train": {"max_steps": 1}}
    given = json.dumps({"spec": spec, "vocabulary": vocabulary, "pairs": pairs, "length": 25})
    environment = os.environ | {"PYTHONPATH": str(repository), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", PROBE, given], env=environment, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stderr[-2000:]
    real = json.loads(done.stdout)
    memory = estimate(RunSpec.model_validate(spec), real["params"], vocabulary)
    assert 0.75 * real["peak"] <= memory - PROCESS["cpu"] <= 1.4 * real["peak"]
    assert real["before"] < PROCESS["cpu"] and real["before"] + real["peak"] <= memory


def test_documents_store_the_weights_of_their_attention() -> None:
    """Against what autograd keeps for the backward pass of two documents of 400 tokens."""
    spec = changed(data={"truncate": {"src": 400}}, batch={"unit": "sentences", "size": 2})
    real, _ = saved(build(spec.model.model_dump(), 40, 40), torch.full((2, 400), 5), torch.full((2, 60), 5))
    assert 0.6 * real <= estimate(spec, 0, 40) - PROCESS["cpu"] <= 1.6 * real


def test_optimiser_state_is_counted() -> None:
    """Adam keeps two numbers for each parameter, Muon at most as many, Nesterov's momentum one; a moving average is one more."""
    optims = {"adam": {}, "muon": {"kind": "muon"}, "nag": {"kind": "nag"}, "averaged": {"ema": 0.99}}
    found = {name: estimate(changed(optim=optim), 1000, 100) for name, optim in optims.items()}
    assert {name: size - found["nag"] for name, size in found.items()} == {"adam": 4000, "muon": 4000, "nag": 0, "averaged": 8000}
