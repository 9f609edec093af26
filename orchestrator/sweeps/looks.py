"""Two looks at a sweep: with its first seeds, then with all of them. Rows that the first look decides get no more seeds.

Two tests of the same claim find a difference that is none more often than one does, so that each look has a stricter level (Pocock 1977).
"""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.errors import UserError
from orchestrator.specs import index
from orchestrator.specs.table import SweepSpec

FIRST = 3
"""Seeds of the first look."""
LEVEL = 0.0294
"""Of each of two looks at equal steps, 0.05 in all (Pocock 1977, Biometrika 64:191). For other steps it is at most 0.058."""


def check(target: str, section: SweepSpec, seeds: Sequence[int], hours: float | None) -> None:
    """UserError if the sweep has no cap, too few seeds, or a scheduler that stops runs."""
    if hours is None:
        raise UserError("--until-decided: found no cap; expected --max-core-hours H (or --max-gpu-hours H)")
    if section.scheduler.kind != "fifo":
        table = next(found.table for found in index.find_all(target) if found.table.sweep is not None)
        position = table.document.at(("sweep", "scheduler", "kind"))
        raise UserError(position.line(f"found {section.scheduler.kind}, which stops runs; expected fifo, because of --until-decided"))
    if len(seeds) <= FIRST:
        raise UserError(
            f"--until-decided: found {len(seeds)} seeds; expected more than the {FIRST} of the first look, in sweep.seeds or --seeds"
        )
