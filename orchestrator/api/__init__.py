"""Results as data frames, runs and trained models, for notebooks and scripts: `import orchestrator.api as nmt`. See docs/api.md.

Functions are loaded at their first use, so that the import itself is cheap.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from orchestrator.errors import UserError

if TYPE_CHECKING:
    from orchestrator.api.comparing import Comparison, compare
    from orchestrator.api.execution import run
    from orchestrator.api.frames import history, hypotheses, results
    from orchestrator.api.models import Translator, load

__all__ = ["Comparison", "Translator", "UserError", "compare", "history", "hypotheses", "load", "results", "run"]

_PLACES = {
    "Comparison": "comparing",
    "Translator": "models",
    "compare": "comparing",
    "history": "frames",
    "hypotheses": "frames",
    "load": "models",
    "results": "frames",
    "run": "execution",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
