"""The trials of an arm: the row with drawn values. Trial 0 is the row as written."""

import functools
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from orchestrator.errors import UserError, for_each
from orchestrator.ledger.provenance import flat
from orchestrator.specs import check
from orchestrator.specs.components import slots
from orchestrator.specs.positions import KeyPath, Position, describe, nearest
from orchestrator.specs.row import Row
from orchestrator.specs.tune import Draw, TuneSpec, rounded

Changes = dict[str, Any]
"""Key path in the spec, parts joined with dots -> value."""


@dataclass(frozen=True)
class Tuning:
    """A section `tune` and its place: `at` returns the position of a key path in its file."""

    spec: TuneSpec
    at: Callable[[KeyPath], Position]


@dataclass(frozen=True)
class Trial:
    """One trial. draws: key of the section -> drawn value, or drawn factor. changes: new values in the row's spec."""

    number: int
    row: Row
    draws: dict[str, Any]
    changes: Changes


def points(spec: TuneSpec) -> list[list[float]]:
    """Returns the points of trials 1, 2, .. in the unit cube, with one dimension per draw. All arms have the same points."""
    dimensions, wanted = len(spec.draws), spec.trials - 1
    if spec.sampler == "random":
        return np.random.default_rng(spec.draw_seed).random((wanted, dimensions)).tolist()
    from scipy.stats.qmc import Sobol  # deferred: takes seconds to import

    sobol = Sobol(dimensions, scramble=True, rng=np.random.default_rng(spec.draw_seed))
    return sobol.random_base2(math.ceil(math.log2(wanted + 1)))[:wanted].tolist()


def trials_of(row: Row, tuning: Tuning, at: Sequence[Sequence[float]]) -> list[Trial]:
    """Returns the row as written, then a trial per point. UserError: one line per value that does not fit the row."""

    def trial(number: int) -> Trial:
        draws, changes = _drawn(row, tuning, at[number - 1]) if number else ({}, {})
        return Trial(number, as_trial(row, number, changes), draws, changes)

    return for_each(trial, range(len(at) + 1))


def as_trial(row: Row, number: int, changes: Changes) -> Row:
    """Returns the row `ROW@trial=N`. It has no claims, controls or figures."""
    plain: dict[str, Any] = {"expect": {}, "pinned": False, "note": "", "controls": (), "also": {}, "means": {}, "control_rows": ()}
    made = changed(row, changes, f"{row.id}@trial={number}")
    return replace(made, label=f"{row.label or row.id}, trial {number}", compare_with=None, failed_below=None, **plain)


def place(data: Any, path: str) -> tuple[Any, Any]:
    """Returns the mapping or list that contains the end of a key path in a spec's plain data, and the last key."""
    *parents, last = (int(part) if part.isdigit() else part for part in path.split("."))
    return functools.reduce(operator.getitem, parents, data), last


def changed(row: Row, changes: Changes, name: str) -> Row:
    """Returns the row under another name, with these values in its spec. UserError: they make it invalid."""
    data = row.run_spec.sections()
    for path, value in changes.items():
        section, name_there = place(data, path)
        section[name_there] = value
    return replace(row, id=name, spec=check.valid(data, name, row.run_spec))


def _drawn(row: Row, tuning: Tuning, point: Sequence[float]) -> tuple[dict[str, Any], Changes]:
    data = row.run_spec.sections()
    draws: dict[str, Any] = {}
    changes: Changes = {}
    for (name, draw), at in zip(tuning.spec.draws.items(), point, strict=True):
        section = "space" if name in tuning.spec.space else "own"
        paths = _paths(data, name)
        if not paths and section == "own":
            continue
        position = tuning.at(("tune", section, name))
        if not paths:
            raise UserError(position.line(f"{row.id} has no such key; {nearest(name, flat(data))}"))
        draws[name] = draw.value(at)
        changes |= {path: _value(draw, draws[name], old, position, row) for path, old in paths.items()}
    return draws, changes


def _value(draw: Draw, drawn: Any, old: Any, position: Position, row: Row) -> Any:
    if draw.factor is None:
        return drawn
    if not isinstance(old, (int, float)) or isinstance(old, bool):
        raise UserError(position.line(f"factor of {describe(old)} in {row.id}; expected a key that holds a number there"))
    return max(1, round(old * drawn)) if isinstance(old, int) else rounded(old * drawn)


def _paths(data: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Returns key path -> value for each place in the spec that a key of the section names."""
    if "." in name:
        known = flat(data)
        return {name: known[name]} if name in known else {}
    found = {}
    for path, _, component in slots(data["model"]):
        if isinstance(component, Mapping) and name in component:
            found[".".join(map(str, ("model", *path, name)))] = component[name]
    return found
