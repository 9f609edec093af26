"""The script of the interactive charts (Vega, Vega-Lite and vega-embed), as vl-convert ships it."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import vl_convert

from orchestrator.files import atomic
from orchestrator.files.documents import read_bytes


def place(cache_dir: Path) -> Path:
    """Where the script is kept."""
    return cache_dir / f"vega-{metadata.version('vl-convert-python')}.js"


def script(cache_dir: Path) -> str:
    """The bundle as one script. Bundling takes seconds: the result is kept in `cache_dir`."""
    path = place(cache_dir)
    if (kept := read_bytes(path)) is not None:
        return kept.decode("utf-8")
    made = str(vl_convert.javascript_bundle(None))  # type: ignore[arg-type]  # the default; its stub says otherwise
    cache_dir.mkdir(parents=True, exist_ok=True)
    atomic.write_text(path, made)
    return made
