"""torch.compile as an option of the training: the default backend, where there is a C++ compiler."""

from __future__ import annotations

import shutil

import pytest

from tests.unit.training.support import Recorder, changed, fit


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile's default backend needs g++")
def test_a_compiled_training_has_the_same_losses(prepared, tmp_path):
    off = {"dropout": {"embedding": 0.0, "residual": 0.0, "attention": 0.0, "ffn": 0.0}}
    plain, compiled = Recorder(), Recorder()
    fit(changed(model=off), prepared, tmp_path / "plain", plain)
    fit(changed(model=off, train={"compile": True}), prepared, tmp_path / "compiled", compiled)
    assert compiled.nll() == pytest.approx(plain.nll(), rel=1e-4)
