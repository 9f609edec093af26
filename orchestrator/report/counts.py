"""Where the parameters that a paper reports are not those of its model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from orchestrator.report.figures import short_id
from orchestrator.report.find import Finder
from orchestrator.specs.row import Row
from orchestrator.specs.table import number
from orchestrator.sweeps import parameters

_UNITS = {"k": 1e3, "M": 1e6, "G": 1e9}


def differing(rows: Sequence[Row], finder: Finder, start: dict[str, str]) -> list[str]:
    """A line for each row whose reported count, or difference to row `start[id]`, is not the counted one to the digits printed.

    Papers round and cut (10,977,824 is printed 10.97M): one unit of the last digit is let pass. Rows without vocabulary sizes are left out.
    """
    counted = {row.id: _count(row, finder) for row in rows if row.spec is not None and {"params", "params_added"} & row.expect.keys()}
    counted |= {row.id: _count(row, finder) for row in rows if row.id in start.values() and row.id not in counted}
    lines = []
    for row in rows:
        ours = counted.get(row.id)
        base = counted.get(start.get(row.id, ""))
        for name, value in (("params", ours), ("params_added", None if ours is None or base is None else ours - base)):
            reported = row.expect.get(name)
            if value is not None and reported is not None and abs(value - (number(reported) or 0.0)) > unit(reported):
                lines.append(f"{short_id(row.id)}: {name.replace('_', ' ')} reported as {reported}, counted {value:,}")
    return lines


def unit(reported: Any) -> float:
    """Worth of the last digit printed: 88.0M -> 100,000; 11,000,000 -> 1."""
    if not isinstance(reported, str):
        return 1.0
    digits = reported.rstrip("".join(_UNITS))
    return float(10.0 ** -len(digits.partition(".")[2])) * _UNITS.get(reported[-1], 1.0)


def _count(row: Row, finder: Finder) -> int | None:
    if row.spec is None:
        return None
    sizes = finder.data.vocabulary_sizes(row.spec)
    return None if sizes is None else parameters.params(row.spec, *sizes)
