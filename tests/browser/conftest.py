"""The browser of these tests."""

import shutil

import pytest


@pytest.fixture
def chromium() -> str:
    """Its path; skips where it is not installed."""
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("chromium is not installed (apt-get install chromium)")
    return path
