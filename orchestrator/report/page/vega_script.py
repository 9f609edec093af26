"""The script of the interactive charts (Vega, Vega-Lite and vega-embed), as vl-convert ships it."""

from __future__ import annotations

import contextlib
from importlib import metadata
from pathlib import Path

import vl_convert

from orchestrator.files import atomic
from orchestrator.files.documents import read_bytes
from orchestrator.paths import user_cache


def place() -> Path:
    """Where the script is kept: in the user's cache, since bundling takes seconds and every page has the same script."""
    return user_cache() / f"vega-{metadata.version('vl-convert-python')}.js"


def script() -> str:
    """The bundle as one script, kept where that is possible."""
    path = place()
    if kept := read_bytes(path):
        return kept.decode("utf-8")
    made = str(vl_convert.javascript_bundle(None))  # type: ignore[arg-type]  # the default; its stub says otherwise
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic.write_text(path, made)
    return made
