"""The level that a table's looks ask for, and where it is found."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from orchestrator.ledger.results import Ledger
from orchestrator.report import looks
from orchestrator.report.claims import Comparisons
from orchestrator.report.find import Finder
from orchestrator.report.table import make
from orchestrator.scoring.significance.reader import StatisticsReader
from orchestrator.specs.claims import RowClaim
from orchestrator.specs.rows import resolve
from orchestrator.sweeps.plan import Data, keys_for
from tests.unit.report.test_effects import TABLE, finish

SHARES = {"base": (0.600, 0.601, 0.602), "mine": (0.620, 0.619, 0.618)}
"""Of which the difference has p between the two levels that the test puts into sweep files."""


@pytest.mark.parametrize("place", ["root", "mirror"])
def test_a_table_has_the_level_of_its_looks(tmp_path: Path, place: str) -> None:
    file = tmp_path / "demo.yaml"
    file.write_text(TABLE, encoding="utf-8")
    rows = [row for row in resolve(file) if row.id.rpartition("/")[2] in SHARES]
    ledger = Ledger(tmp_path / "root", [tmp_path / "mirror"])
    for row in rows:
        for seed, share in enumerate(SHARES[row.id.rpartition("/")[2]], 1):
            finish(ledger, row, seed, share)
    reader = StatisticsReader(ledger, lambda data: None)

    def state() -> tuple[Any, ...]:
        finder = Finder(ledger, Data(None))
        table = make("demo/small", rows, finder, reader=reader)
        outcomes = {row.id: finder.outcomes(row) for row in rows}
        claim = RowClaim("demo/small/mine", "demo/small/base", 2.0)
        (record,) = Comparisons(rows, outcomes, {}, reader, [claim]).of_claims()
        (ours,) = (line.ours for line in table.rows if line.id == claim.row)
        assert ours is not None
        notes = [note for note in table.notes if note.startswith("looks")]
        return ours["effect"]["p"], ours["significant"], ours["verdict"]["word"], record["level"], record["verdict"], notes

    p, significant, word, level, verdict, notes = state()
    assert (significant, word, level, notes) == (True, "higher", 0.05, []) and verdict in ("reproduced", "same direction")
    score = keys_for(next(row for row in rows if row.id.endswith("mine")).at(1), Data(None)).score
    path = tmp_path / place / "sweeps" / "any.json"
    path.parent.mkdir(parents=True, exist_ok=True)

    def write(**changes: Any) -> None:
        one = {"score": score, "verdict": "undecided", "reason": "", "continue": False} | changes
        base = {"score": "no such", "verdict": "baseline", "reason": "", "continue": False}
        look = {"seeds": 3, "all_seeds": [1, 2, 3, 4], "level": p / 2, "rows": {"demo/small/mine": one, "demo/small/base": base}}
        path.write_text(json.dumps({"name": "any", "rows": [], "looks": [look]}))

    write()
    assert state()[1:4] == (False, "undecided", p / 2) and state()[4] == "underpowered"
    (note,) = state()[5]
    assert note.startswith("looks after 3 and 4 seeds: p-values are compared with") and note.endswith("first look: mine (undecided)")
    write(score="0" * 64)
    assert state()[3] == 0.05, "a row of the same name with another spec is not the one that was looked at"
    path.write_text('{"looks": [{"rows": 3}]}')
    assert state()[3] == 0.05 and looks.notes(ledger, {}) == []
