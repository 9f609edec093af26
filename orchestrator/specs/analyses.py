"""Names of the kinds of analyses. Each kind is a module of `orchestrator.analysis.kinds`; listing the files imports none of them."""

from __future__ import annotations

from pathlib import Path

KINDS = tuple(sorted(path.stem.replace("_", "-") for path in (Path(__file__).parents[1] / "analysis" / "kinds").glob("[a-z]*.py")))
