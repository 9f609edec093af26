"""Results as data frames, runs and trained models, for notebooks and scripts: `import orchestrator.api as nmt`. See docs/api.md."""

from orchestrator.api.frames import Comparison, Translator, compare, history, hypotheses, load, results, run
from orchestrator.errors import UserError

__all__ = ["Comparison", "Translator", "UserError", "compare", "history", "hypotheses", "load", "results", "run"]
