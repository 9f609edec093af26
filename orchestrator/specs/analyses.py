"""Names of the analysis kinds: one per module of `orchestrator.analysis.kinds`, listed from the file names without importing them."""

from __future__ import annotations

from pathlib import Path

KINDS = tuple(sorted(path.stem.replace("_", "-") for path in (Path(__file__).parents[1] / "analysis" / "kinds").glob("[a-z]*.py")))
