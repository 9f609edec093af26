"""Names of the analysis kinds and the modules of `orchestrator.analysis.kinds` that register them, listed without importing them."""

from __future__ import annotations

from pathlib import Path

_CURVES = dict.fromkeys(("hops", "steps", "depth"), "option_curves")
_FILES = (path.stem for path in (Path(__file__).parents[1] / "analysis" / "kinds").glob("[a-z]*.py"))
MODULES = {name.replace("_", "-"): name for name in _FILES if name not in _CURVES.values()} | _CURVES
KINDS = tuple(sorted(MODULES))
