from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from support import SPEC


@pytest.fixture(scope="session")
def prepared(tmp_path_factory):
    from orchestrator.data.prepare import prepare

    return prepare(SPEC.data, None, tmp_path_factory.getbasetemp().parent / "data-cache")
