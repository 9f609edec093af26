"""Registry of the kinds of analysis. A kind is a function that a module of `orchestrator.analysis.kinds` registers:

@register("length", options={"edges": "15,30,45"})
def analyse(context: Context) -> Analysis: ...
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

from orchestrator.analysis.base import Analysis, AnalysisContext
from orchestrator.errors import UserError
from orchestrator.specs.analyses import KINDS, MODULES
from orchestrator.specs.positions import nearest, shown

Analyse = Callable[[AnalysisContext], Analysis]


@dataclass(frozen=True)
class Kind:
    """A kind of analysis. options: name -> default, both as text (`--option edges=10,20`).

    needs_runs: leave out rows without a finished run. needs_weights: leave out rows without weights in the ledger's root, as in published
    results.
    """

    name: str
    analyse: Analyse
    options: dict[str, str]
    needs_runs: bool
    needs_weights: bool


_registered: dict[str, Kind] = {}


def register(
    name: str, *, options: dict[str, str] | None = None, needs_runs: bool = True, needs_weights: bool = False
) -> Callable[[Analyse], Analyse]:
    def add(analyse: Analyse) -> Analyse:
        _registered[name] = Kind(name, analyse, options or {}, needs_runs, needs_weights)
        return analyse

    return add


def get(name: str) -> Kind:
    """Imports the module of a kind and returns the kind. Raises UserError for an unknown name."""
    if name not in KINDS:
        raise UserError(f"--kind {shown(name)}: {nearest(name, KINDS)}")
    import_module(f"orchestrator.analysis.kinds.{MODULES[name]}")
    return _registered[name]


def options_of(kind: str, given: list[str]) -> dict[str, str]:
    """Returns the defaults of the kind updated with `KEY=VALUE` texts. Raises UserError for an unknown option or a missing value."""
    options = dict(get(kind).options)
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not value:
            raise UserError(f"--option {shown(text)}: found no value; expected KEY=VALUE")
        if name not in options:
            raise UserError(f"--option {shown(text)}: {shown(name)} is no option of {kind}; {nearest(name, options)}")
        options[name] = value
    return options
