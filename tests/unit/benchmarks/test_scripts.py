"""Every script of benchmarks/ can start, but for the workers: these need other toolkits."""

import importlib

import pytest

from orchestrator.paths import ROOT

SCRIPTS = [path.stem for place in ("", "gpu", "peers") for path in sorted((ROOT / "benchmarks" / place).glob("*.py"))]


@pytest.mark.parametrize("script", SCRIPTS)
def test_it_finds_what_it_imports(script: str) -> None:
    importlib.import_module(script)
