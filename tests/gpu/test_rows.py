"""Every row of the papers trains on a CUDA device as on a CPU: profile smoke without dropout, and the loop's own promises there."""

import functools
import warnings

import pytest
import torch

from orchestrator.data.prepare import prepare
from orchestrator.specs.rows import resolve
from orchestrator.training.runtime import Runtime
from tests.specs.papers import PAPERS, RUN, SAME
from tests.unit.training.support import OFF, SPEC, Recorder, changed, fit

EXPLOSIVE = {"dou2018/table1/row2"}
"""Its state grows as 2^layers, and the rounding with it."""


@functools.cache
def rows():
    return {row.id: row for folder in PAPERS for row in resolve(folder, profile="smoke")}


@pytest.fixture(scope="session")
def cache(tmp_path_factory):
    return tmp_path_factory.getbasetemp().parent / "gpu-data-cache"


def nll(spec, prepared, run_dir, device: str):
    recorder = Recorder()
    result = fit(spec, prepared, run_dir, recorder, Runtime(device=torch.device(device)))
    assert result.status == "done", result.reason
    return recorder.nll()


@pytest.mark.parametrize("address", [address for address in RUN if address not in SAME and address not in EXPLOSIVE])
def test_a_row_trains_as_on_a_cpu(address, cache, tmp_path):
    spec = changed(rows()[address].spec, model={"dropout": OFF})
    prepared = prepare(spec.data, None, cache)
    want = nll(spec, prepared, tmp_path / "cpu", "cpu")
    assert nll(spec, prepared, tmp_path / "fp32", "cuda") == pytest.approx(want, rel=2e-3)
    assert nll(changed(spec, train={"precision": "bf16"}), prepared, tmp_path / "bf16", "cuda") == pytest.approx(want, rel=0.03)


def test_a_resumed_training_ends_where_an_uninterrupted_one_does(cache, tmp_path):
    prepared = prepare(SPEC.data, None, cache)
    runtime = Runtime(device=torch.device("cuda"))
    whole = fit(SPEC, prepared, tmp_path / "whole", None, runtime)
    with pytest.raises(KeyboardInterrupt):
        fit(SPEC, prepared, tmp_path / "cut", Recorder(stop_at=10), runtime)
    resumed = fit(SPEC, prepared, tmp_path / "cut", None, runtime)
    for name, value in whole.weights.items():
        torch.testing.assert_close(resumed.weights[name], value, atol=1e-5, rtol=1e-4)


def test_the_training_loop_captures_its_batches(cache, tmp_path):
    """Beside the thread that pins them; with dropout of attention, which draws within the capture."""
    spec = changed(SPEC, train={"precision": "bf16"})
    runtime = Runtime(device=torch.device("cuda"))
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="not captured")
        assert fit(spec, prepare(spec.data, None, cache), tmp_path, None, runtime).status == "done"
