"""torch.compile as an option of the training: the default backend, where there is a C++ compiler."""

import shutil

import pytest

from tests.unit.training.support import Recorder, changed, fit


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile's default backend needs g++")
def test_a_compiled_training_has_the_same_losses(prepared, tmp_path):
    small = {"encoder": {"num_layers": 1}, "decoder": {"num_layers": 1}}  # compiling takes a minute a layer
    off = {"dropout": {"embedding": 0.0, "residual": 0.0, "attention": 0.0, "ffn": 0.0}}
    short = {"max_steps": 4, "validate_every": 4, "checkpoint_every": 4, "snapshots": 0}
    plain, compiled = Recorder(), Recorder()
    fit(changed(model=small | off, train=short), prepared, tmp_path / "plain", plain)
    fit(changed(model=small | off, train=short | {"compile": True}), prepared, tmp_path / "compiled", compiled)
    assert compiled.nll() == pytest.approx(plain.nll(), rel=1e-4)
