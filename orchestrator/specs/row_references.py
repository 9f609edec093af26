"""References to other rows: what training starts from, what the row is compared with, and the subjects of an analysis."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.errors import UserError
from orchestrator.specs import index
from orchestrator.specs.parsed_table import ParsedRow, TableFile
from orchestrator.specs.positions import Position, nearest, shown
from orchestrator.specs.table import SCORED, segments


def parent(table: TableFile, parsed: ParsedRow) -> tuple[TableFile, str]:
    """Returns the table and the name of the row that `init_from` names. Raises UserError if there is none."""
    path = ("rows", parsed.name, "init_from")
    return _named(table, parsed, parsed.head.init_from or "", Position(table.document.at(path).where, path))


def compared_with(table: TableFile, parsed: ParsedRow) -> str | None:
    """Returns the address of the row in `compare_with`, or None.

    Raises UserError if it is not another row of the table of kind run or external, or if the rows that it leads to come back to this one.
    """
    name, position = parsed.head.compare_with, table.document.at(("rows", parsed.name, "compare_with"))
    if name is None:
        return None
    home, row = _named(table, parsed, name, position, SCORED)
    if home is not table:
        raise UserError(position.line(f"found '{shown(name)}', a row of another table; {nearest(name, table.rows)}"))
    seen, current = [row], row
    while (following := table.rows[current].head.compare_with) is not None and current != parsed.name:
        current = following.removeprefix(f"{table.address}/")
        if current not in table.rows or current in seen:
            break
        seen.append(current)
    if current == parsed.name:
        raise UserError(position.line(f"found a circle: {' -> '.join([parsed.name, *seen])}; expected rows that end at a baseline"))
    return f"{table.address}/{row}"


def subjects(table: TableFile, parsed: ParsedRow) -> list[str]:
    """Returns the addresses of the rows in `of`. Raises UserError with one line for each that is not a row of kind run."""
    found: list[str] = []
    problems: list[str] = []
    for i, name in enumerate(parsed.head.of):
        try:
            home, row = _named(table, parsed, name, table.document.at(("rows", parsed.name, "of", i)))
            found.append(f"{home.address}/{row}")
        except UserError as error:
            problems += error.lines
    if problems:
        raise UserError(*problems)
    return found


def problems_of(table: TableFile, parsed: ParsedRow) -> list[str]:
    """Returns one line per reference to a missing row, and one for a cycle of `init_from`."""
    problems: list[str] = []
    for check in (subjects, compared_with):
        try:
            check(table, parsed)
        except UserError as error:
            problems += error.lines
    return problems + ([] if parsed.head.init_from is None else _circles(table, parsed))


def _named(table: TableFile, parsed: ParsedRow, name: str, position: Position, kinds: Sequence[str] = ("run",)) -> tuple[TableFile, str]:
    if name in table.rows:
        home, row = table, name
    elif segments(name, 3, 4) and name.startswith(table.address + "/") and name[len(table.address) + 1 :] in table.rows:
        home, row = table, name[len(table.address) + 1 :]
    elif segments(name, 3, 4):
        try:
            target = index.find(name)
        except UserError as error:
            raise UserError(position.line(f"found '{name}': {error.lines[0]}")) from None
        home, row = target.table, target.row or ""
    else:
        raise UserError(position.line(f"found '{shown(name)}'; {nearest(name, table.rows)}"))
    if home.rows[row].head.kind not in kinds:
        raise UserError(
            position.line(f"found '{name}', a row of kind {home.rows[row].head.kind}; expected one of kind {' or '.join(kinds)}")
        )
    if home is table and row == parsed.name:
        raise UserError(position.line(f"found the row itself, '{name}'; expected another row"))
    return home, row


def _circles(table: TableFile, parsed: ParsedRow) -> list[str]:
    seen: list[str] = []
    home, current, name = table, parsed, parsed.name
    try:
        while current.head.init_from is not None and f"{home.address}/{name}" not in seen:
            seen.append(f"{home.address}/{name}")
            home, name = parent(home, current)
            current = home.rows[name]
    except UserError as error:
        return error.lines if len(seen) == 1 else []
    order = [f"{table.address}/{known}" for known in table.rows]
    if current is parsed and min(seen, key=lambda place: order.index(place) if place in order else len(order)) == seen[0]:
        position = table.document.at(("rows", parsed.name, "init_from"))
        return [position.line(f"found a circle: {' -> '.join(seen)}; expected a row that does not start from this one")]
    return []
