"""Matched controls by name: `row1@params=row5` is row1 with the parameters of row5. `cost.controls` resolves them."""

import re
from collections.abc import Iterable, Sequence
from typing import get_args

from orchestrator.errors import UserError
from orchestrator.specs.positions import nearest, shown
from orchestrator.specs.row import Control, Row, by_table, starts
from orchestrator.specs.table import ControlKind, segments

KINDS: tuple[str, ...] = get_args(ControlKind)
TUNED = "@tuned"
"""Suffix of the name of a row with the best configuration of its search (`tuning.choice`)."""
WORDS = {"params": "parameters", "flops": "operations"}
_NAME = re.compile(r"(?P<of>[^@=]+)@(?P<kind>[^@=/]*)=(?P<against>[^@=]+)")


def split(name: str) -> tuple[str, str, str] | None:
    """`row1@params=row5` -> (row1, params, row5); None for other names. UserError for an unknown kind."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    if match["kind"] not in KINDS:
        raise UserError(f"{shown(name, 200)}: found the control '{shown(match['kind'])}'; {nearest(match['kind'], KINDS)}")
    return match["of"], match["kind"], match["against"]


def of_address(address: str) -> Control | None:
    """Returns the control with this address; None for other texts."""
    match = _NAME.fullmatch(address.removesuffix(TUNED))
    if match is None or match["kind"] not in KINDS or not segments(match["of"], 3, 4) or not segments(match["against"], 1, 2):
        return None
    return Control(match["kind"], match["of"], "/".join([*match["of"].split("/")[:2], match["against"]]))


def parse(text: str | None) -> list[str] | None:
    """`params,flops` -> [params, flops], the empty text -> []. UserError for an unknown kind."""
    if text is None:
        return None
    kinds = [part.strip() for part in text.split(",")] if text.strip() else []
    if unknown := next((kind for kind in kinds if kind not in KINDS), None):
        raise UserError(f"--controls {shown(text)}: found '{shown(unknown)}'; {nearest(unknown, KINDS)}")
    return kinds


def wanted(rows: Sequence[Row], given: Iterable[str] | None = None) -> dict[str, list[Control]]:
    """Returns row -> the controls that it requests, or the `given` ones for whole tables. Baselines have no controls."""
    found = {}
    for table in by_table(rows).values():
        start = starts(table) if given is not None or any(row.controls for row in table) else {}
        trained = {row.id for row in table if row.kind == "run"}
        for row in table:
            kinds = row.controls if given is None else given
            if {row.id, start.get(row.id)} <= trained:
                found[row.id] = [Control(kind, start[row.id], row.id) for kind in dict.fromkeys(kinds)]
    return {row_id: controls for row_id, controls in found.items() if controls}
