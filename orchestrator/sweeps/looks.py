"""Two looks at a sweep: with its first seeds, then with all of them. Rows that the first look decides get no more seeds.

Their level of significance: `report.looks`.
"""

from collections.abc import Sequence

from orchestrator.errors import UserError
from orchestrator.specs import index
from orchestrator.specs.table import SweepSpec

FIRST = 3
"""Seeds of the first look."""


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
