"""The row that each row of a table is compared with."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.specs.row import Row


def baseline(rows: Sequence[Row]) -> str | None:
    """The first pinned row (baselines are pinned so that a search never stops them), else the first that runs."""
    runs = [row for row in rows if row.kind == "run"]
    return next((row.id for row in runs if row.pinned), runs[0].id if runs else None)


def starts(rows: Sequence[Row], base: str | None = None) -> dict[str, str]:
    """Maps each row to the row it is compared with, on the same corpus.

    That is `base` if given, else the row that its file names (`compare_with`), else the row that it starts from if that is among `rows`,
    else the `baseline` of the rows on its corpus.
    """
    corpora = {row.id: row.spec.data.corpus for row in rows if row.spec is not None}
    first = {corpus: baseline([row for row in rows if corpora.get(row.id) == corpus]) for corpus in set(corpora.values())}
    found = {}
    for row in rows:
        if row.spec is None:
            continue
        usual = row.spec.init_from if row.spec.init_from in corpora else first[row.spec.data.corpus]
        start = base or row.compare_with or usual
        if start is not None and start != row.id and corpora.get(start) == row.spec.data.corpus:
            found[row.id] = start
    return found
