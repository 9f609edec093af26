"""Rows of a table whose code changed since they were trained, and results that were set aside for newer ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from orchestrator.report.figures import short_id
from orchestrator.report.find import Finder, Outcome
from orchestrator.specs.row import Row


def changed(
    rows: Sequence[Row], outcomes: Mapping[str, Sequence[Outcome]], finder: Finder, seeds: Iterable[int]
) -> dict[tuple[str, int], list[str]]:
    """(row, seed) -> what changed (see `sources`); of the rows that others start from too, which other tables may have."""
    found = dict(outcomes)
    for row in rows:
        while (row := row.parent) is not None and row.id not in found:  # type: ignore[assignment]
            found[row.id] = finder.outcomes(row, seeds)
    return {(row_id, o.seed): list(o.changed) for row_id, each in found.items() for o in each if o.changed}


def files(row: str, found: Mapping[tuple[str, int], list[str]]) -> dict[str, list[str]]:
    """What a row's figures say of it: `changed`, over its seeds; nothing where nothing changed."""
    names = sorted({name for (row_id, _), each in found.items() if row_id == row for name in each})
    return {"changed": names} if names else {}


def kept(rows: Sequence[Row], outcomes: Mapping[str, Sequence[Outcome]]) -> list[str]:
    """A note for each row with earlier results."""
    lines = []
    for row in rows:
        places = sorted({f"{place.parent.parent.name}/{place.parent.name}" for o in outcomes[row.id] for place in o.earlier})
        if places:
            lines.append(f"{short_id(row.id)}: trained again; the result before is kept (--results RESULTS/{', RESULTS/'.join(places)})")
    return lines
