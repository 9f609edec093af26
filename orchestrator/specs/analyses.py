"""Names of the analysis kinds and the modules of `orchestrator.analysis.kinds` that register them, listed without importing them."""

from __future__ import annotations

from pathlib import Path

_SHARED = {
    "attention": ("attention-maps", "layer-attention"),
    "option_curves": ("hops", "steps", "depth"),
    "structure": ("grid", "parameters", "properties"),
}
"""Modules that register several kinds."""
_FILES = (path.stem for path in (Path(__file__).parents[1] / "analysis" / "kinds").glob("[a-z]*.py"))
MODULES = {name: module for module in _FILES for name in _SHARED.get(module, (module.replace("_", "-"),))}
KINDS = tuple(sorted(MODULES))
