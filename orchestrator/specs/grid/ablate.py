"""Leave-one-component-out ablations: each component that differs from the baseline is reverted to the baseline's in turn."""

from __future__ import annotations

import copy
import re
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from orchestrator.errors import UserError
from orchestrator.specs import check, index
from orchestrator.specs.components import SLOTS
from orchestrator.specs.positions import KeyPath, Located, Position, dotted, shown
from orchestrator.specs.resolver import Resolver, written
from orchestrator.specs.row import Row, as_data
from orchestrator.specs.rows import resolve, sweep_of
from orchestrator.specs.show import dumped
from orchestrator.specs.table import segments

SOURCE = "ablations"
FULL, BASE = "full", "baseline"


@dataclass(frozen=True)
class Ablation:
    """An ablation table. yaml: content of its file; notes: lines for the user."""

    yaml: str
    notes: list[str]


@dataclass(frozen=True)
class Piece:
    """A component that differs from the baseline's. path: its place below `model`; back: the baseline's component there, or None."""

    name: str
    path: KeyPath
    back: Any


def ablation(target: str, baseline: str | None = None) -> Ablation:
    """Returns the leave-one-out table of a row. Raises UserError if `target` is not a single row or has no component to revert."""
    rows = resolve(target)
    if len(rows) != 1 or rows[0].spec is None:
        raise UserError(f"{shown(target)}: found {len(rows)} rows of kind {rows[0].kind}; expected one row of kind run")
    row = rows[0]
    base = _baseline(row, target, baseline)
    assert row.spec is not None and base.spec is not None
    if row.spec.init_from is not None:
        index.find(row.spec.init_from)  # the new file must be able to find it too
    model, plain = row.spec.model.model_dump(), base.spec.model.model_dump()
    pieces = _pieces(model, plain)
    if not pieces:
        raise UserError(f"{row.id}: has the components of {base.id}; expected a row that differs, or another --baseline")
    made: dict[str, list[Piece]] = {FULL: []}
    notes = [f"{row.id}: {len(pieces)} components that {base.id} has not: {', '.join(piece.name for piece in pieces)}"]
    models = [model]
    for piece in pieces:
        found, why = _smallest(row, model, piece, pieces)
        if found is None:
            notes.append(f"without {piece.name}: no row, for it fits nothing else of the row: {why}")
            continue
        without = _put_back(model, found)
        names = "-and-".join(sorted((p.name for p in found), key=lambda name: name != piece.name))
        if without in models:
            notes.append(f"without {piece.name}: the same row as another")
        else:
            models.append(without)
            made[f"without-{names}"] = found
    if _put_back(model, pieces) not in models and not _refusals(row, _put_back(model, pieces)):
        made[BASE] = pieces
    others = [key for key in _scalars(model) if _scalars(model)[key] != _scalars(plain)[key]]
    if others:
        notes.append(f"kept as in {row.id} in all of them: {', '.join(others)}")
    return Ablation(_yaml(row, base, made, list(sweep_of(target).seeds)), notes)


def _baseline(row: Row, target: str, named: str | None) -> Row:
    if named is not None:
        table = "/".join(row.id.split("/")[:2])
        rows = resolve(named if segments(named, 3, 4) or "#" in named or "." in named else f"{table}/{named}")
        if len(rows) != 1 or rows[0].spec is None:
            raise UserError(f"--baseline {shown(named)}: expected one row of kind run")
        return rows[0]
    if row.parent is not None:
        return row.parent
    table_file = index.find(target).table
    corpus = row.spec.data.corpus if row.spec else None
    parsed = {} if table_file.is_single else written(table_file)
    candidates = [name for name, p in parsed.items() if p.head.kind == "run" and p.spec.data["data"].get("corpus") == corpus]
    first = next((name for name in candidates if parsed[name].head.pinned), candidates[0] if candidates else None)
    if first is None or f"{table_file.address}/{first}" == row.id:
        raise UserError(f"{row.id}: found no baseline to put components back to; expected --baseline ROW")
    return Resolver([], None, 1).row(table_file, first)


def _pieces(model: dict[str, Any], plain: dict[str, Any]) -> list[Piece]:
    found = [Piece(dotted(path), path, _at(plain, path)) for path in SLOTS if _at(model, path) != _at(plain, path)]
    for each in model["regularizers"]:
        other = next((item for item in plain["regularizers"] if item["kind"] == each["kind"]), None)
        if other != each:
            found.append(Piece(each["kind"], ("regularizers", each["kind"]), other))
    return found


def _put_back(model: dict[str, Any], pieces: list[Piece]) -> dict[str, Any]:
    made = copy.deepcopy(model)
    for piece in pieces:
        if piece.path[0] == "regularizers":
            listed = [piece.back if item["kind"] == piece.path[1] else item for item in made["regularizers"]]
            made["regularizers"] = [item for item in listed if item is not None]
            continue
        place: Any = made
        for part in piece.path[:-1]:
            place = place[part]
        place[piece.path[-1]] = copy.deepcopy(piece.back)
    return made


def _smallest(row: Row, model: dict[str, Any], piece: Piece, pieces: list[Piece]) -> tuple[list[Piece] | None, str]:
    """Returns the smallest set of pieces, including `piece`, whose reversal leaves a valid model; else None and why `piece` alone fails."""
    others = [other for other in pieces if other is not piece]
    why = ""
    for number in range(len(others) + 1):
        for more in combinations(others, number):
            found = _refusals(row, _put_back(model, [piece, *more]))
            if not found:
                return [piece, *more], ""
            why = why or found[0]
    return None, why


def _refusals(row: Row, model: dict[str, Any]) -> list[str]:
    assert row.spec is not None
    data = row.spec.model_dump(exclude={"seed", "init_from"}) | {"model": copy.deepcopy(model)}
    return check.check(Located(data, Position(row.id, ())), init_from=row.spec.init_from).problems


def _scalars(model: dict[str, Any]) -> dict[str, Any]:
    """Returns the fields of a model that are not components."""
    slots = {path[0] for path in SLOTS if len(path) == 1} | {"regularizers", "encoder", "decoder"}
    depths = {f"{side}.num_layers": model[side]["num_layers"] for side in ("encoder", "decoder")}
    return {name: value for name, value in model.items() if name not in slots} | depths


def _yaml(row: Row, base: Row, made: dict[str, list[Piece]], seeds: list[int]) -> str:
    assert row.spec is not None
    table = re.sub(r"[^A-Za-z0-9._-]", "-", row.id.replace("/", "."))[:64]
    kept = ("also", "means", "significance", "failed_below", "assumed")
    head = {name: value for name, value in as_data(row).items() if name in kept and value}
    data: dict[str, Any] = {"source": {"paper": SOURCE, "table": table}, **head, "sweep": {"seeds": seeds}}
    data |= row.spec.model_dump(exclude={"seed", "init_from"})
    rows: dict[str, Any] = {}
    for name, pieces in made.items():
        labels = {FULL: f"{row.label} ({row.id})", BASE: f"components of {base.id}"}
        entry: dict[str, Any] = {"label": labels.get(name, f"without {' and '.join(p.name for p in pieces)}")}
        entry |= {"pinned": True} if name == FULL else {}
        entry |= {"workers": row.workers} if row.workers != 1 else {}
        entry |= {"init_from": row.spec.init_from} if row.spec.init_from is not None else {}
        if pieces:
            entry["model"] = _difference(row.spec.model.model_dump(), pieces)
        rows[name] = entry
    text = f"# {row.id} without each of its components in turn; they are those of {base.id} then.\n# Made by: nmt-ablate ablate {row.id}\n"
    return text + dumped(data | {"rows": rows})


def _difference(model: dict[str, Any], pieces: list[Piece]) -> dict[str, Any]:
    whole = _put_back(model, pieces)
    found: dict[str, Any] = {}
    for piece in pieces:
        place: Any = found
        for part in piece.path[:-1]:
            place = place.setdefault(part, {}) if piece.path[0] != "regularizers" else found
        if piece.path[0] == "regularizers":
            found["regularizers"] = whole["regularizers"]
        else:
            place[piece.path[-1]] = piece.back
    return found


def _at(model: dict[str, Any], path: KeyPath) -> Any:
    value: Any = model
    for part in path:
        value = value[part]
    return value
