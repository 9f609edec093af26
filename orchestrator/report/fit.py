"""Notes on figures whose metric does not suit their references (see `metric_compatibility`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from orchestrator.report.figures import short_id
from orchestrator.report.find import Finder, Outcome
from orchestrator.specs.row import Row
from orchestrator.sweeps.metric_compatibility import metric_warnings


def doubted(rows: Sequence[Row], outcomes: Mapping[str, Sequence[Outcome]], finder: Finder) -> list[str]:
    """One line for each doubt, with the rows that have figures it is about."""
    about: dict[str, list[str]] = {}
    known: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        done = next((o for o in outcomes[row.id] if o.status == "done"), None)
        if row.spec is None or done is None:
            continue
        said = (finder.score(row, done.keys) or {}).get("doubts")
        if said is None:
            key = (row.spec.data.model_dump_json(), row.spec.score.model_dump_json())
            if key not in known:
                prepared = finder.prepared(row.spec.data)
                known[key] = [] if prepared is None else metric_warnings(prepared, row.spec.data, row.spec.score)
            said = known[key]
        for line in said:
            about.setdefault(str(line), []).append(short_id(row.id))
    return [f"{', '.join(names)}: {line}" for line, names in about.items()]
