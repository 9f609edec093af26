"""What `benchmarks/overheads.py` times is there: a function that was renamed would end it."""

import importlib
from operator import attrgetter

import pytest
from overheads_probe import PHASES


@pytest.mark.parametrize("module", [name for name in PHASES if name.startswith("orchestrator.")])
def test_every_phase_has_its_function(module):
    for path in PHASES[module]:
        attrgetter(path)(importlib.import_module(module))
