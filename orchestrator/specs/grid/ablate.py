"""Leave-one-component-out ablations: each component that differs from the baseline is reverted to the baseline's in turn."""

import re
from collections.abc import Sequence
from itertools import combinations
from typing import Any

from orchestrator.errors import UserError, collecting
from orchestrator.specs import check, index
from orchestrator.specs.components import SLOTS, placed, slots
from orchestrator.specs.positions import KeyPath, Located, Position, dotted, shown
from orchestrator.specs.resolver import Resolver
from orchestrator.specs.row import Row, as_data, starts
from orchestrator.specs.rows import resolve, sweep_of
from orchestrator.specs.show import dumped
from orchestrator.specs.table import segments

SOURCE = "ablations"
FULL, BASE = "full", "baseline"


def ablation(target: str, baseline: str | None = None) -> tuple[str, list[str]]:
    """Returns the file of a row's leave-one-out table, and notes. Raises UserError for no single row, or one that is its baseline."""
    row = _only(target, shown(target))
    base = _baseline(row, target, baseline)
    if row.run_spec.init_from is not None:
        index.find(row.run_spec.init_from)  # the new file must be able to find it too
    ours, back = (_components(each.run_spec.model.model_dump()) for each in (row, base))
    pieces = [path for path in ours | back if ours.get(path) != back.get(path)]
    if not pieces:
        raise UserError(f"{row.id}: has the components of {base.id}; expected a row that differs, or another --baseline")
    made: dict[str, tuple[str, dict[str, Any]]] = {FULL: (f"{row.label} ({row.id})", {})}
    notes = [f"{row.id}: {len(pieces)} components differ from those of {base.id}: {', '.join(map(_name, pieces))}"]
    for piece in pieces:
        word = "with" if ours.get(piece) is None else "without"
        others = [other for other in pieces if other != piece]
        sets = [(piece, *more) for number in range(len(others) + 1) for more in combinations(others, number)]  # the smallest first
        fitting = next((found for found in sets if not _refusals(row, _difference(ours, back, found))), None)
        if fitting is None:
            why = _refusals(row, _difference(ours, back, (piece,)))[0]
            notes.append(f"{word} {_name(piece)}: no row, for it fits nothing else of the row: {why}")
            continue
        difference = _difference(ours, back, fitting)
        if difference in [known for _, known in made.values()]:
            notes.append(f"{word} {_name(piece)}: the same row as another")
            continue
        names = [_name(path) for path in fitting]
        made[f"{word}-{'-and-'.join([names[0], *sorted(names[1:])])}"] = f"{word} {' and '.join(names)}", difference
    difference = _difference(ours, back, pieces)
    if difference not in [known for _, known in made.values()] and not _refusals(row, difference):
        made[BASE] = f"components of {base.id}", difference
    return _yaml(row, base, made, list(sweep_of(target).seeds)), notes


def _only(target: str, where: str) -> Row:
    rows = resolve(target)
    if len(rows) != 1 or rows[0].spec is None:
        raise UserError(f"{where}: found {len(rows)} rows of kind {rows[0].kind}; expected one row of kind run")
    return rows[0]


def _baseline(row: Row, target: str, named: str | None) -> Row:
    """Returns the row that is named, or that training starts from, or with which the row is compared in its table."""
    if named is not None:
        whole = segments(named, 3, 4) or "#" in named or "." in named
        return _only(named if whole else f"{index.find(target).table.path}#{named}", f"--baseline {shown(named)}")
    if row.parent is not None:
        return row.parent
    table, resolver = index.find(target).table, Resolver([], None, 1)
    rows = [other for name in table.written if (other := resolver.row(table, name)).spec is not None]
    start = starts([*rows, row]).get(row.id)
    if start is None:
        raise UserError(f"{row.id}: found no baseline to put components back to; expected --baseline ROW")
    return next(other for other in rows if other.id == start)


def _components(model: dict[str, Any]) -> dict[KeyPath, Any]:
    """Returns path -> component (None: absent); the path of a regularizer ends with its kind."""
    found = {("regularizers", part["kind"]) if path[0] == "regularizers" else path: part for path, _, part in slots(model)}
    return dict.fromkeys(SLOTS) | found


def _difference(ours: dict[KeyPath, Any], back: dict[KeyPath, Any], pieces: Sequence[KeyPath]) -> dict[str, Any]:
    """Returns the keys of the model section that change where the `pieces` are as in `back`."""
    found: dict[str, Any] = {}
    for path in pieces:
        if path[0] == "regularizers":
            listed = [(back if place in pieces else ours).get(place) for place in ours | back if place[0] == "regularizers"]
            found["regularizers"] = [each for each in listed if each is not None]
        else:
            found = placed(found, path, back[path])
    return found


def _refusals(row: Row, difference: dict[str, Any]) -> list[str]:
    home = Position(row.id, ())
    whole = Located(row.run_spec.sections(), home).merged(Located({"model": difference}, home))
    problems: list[str] = []
    with collecting(problems):
        check.check(whole, init_from=row.run_spec.init_from)
    return problems


def _name(path: KeyPath) -> str:
    return str(path[1]) if path[0] == "regularizers" else dotted(path)


def _yaml(row: Row, base: Row, made: dict[str, tuple[str, dict[str, Any]]], seeds: list[int]) -> str:
    table = re.sub(r"[^A-Za-z0-9._-]", "-", row.id.replace("/", "."))[:64]
    kept = ("also", "means", "significance", "failed_below", "assumed")
    head = {name: value for name, value in as_data(row).items() if name in kept and value}
    data: dict[str, Any] = {"source": {"paper": SOURCE, "table": table}, **head, "sweep": {"seeds": seeds}}
    data |= row.run_spec.sections()
    common: dict[str, Any] = {"workers": row.workers} if row.workers != 1 else {}
    common |= {"init_from": row.run_spec.init_from} if row.run_spec.init_from is not None else {}
    rows = {
        name: {"label": label, **({"pinned": True} if name == FULL else {}), **common, **({"model": difference} if difference else {})}
        for name, (label, difference) in made.items()
    }
    text = f"# {row.id} without each of its components in turn; they are those of {base.id} then.\n# Made by: nmt-ablate ablate {row.id}\n"
    return text + dumped(data | {"rows": rows})
