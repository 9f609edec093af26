"""A table as data: the paper's numbers beside ours. A row that was stopped or failed has a status and no figures."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from orchestrator.capsule import differences
from orchestrator.report.find import Finder, Outcome
from orchestrator.row_schema import number
from orchestrator.rows import Row

OURS = ("params", "params_added", "bleu", "delta", "bleu_spread", "tokens_per_second", "sentences_per_second")
"""Columns that we measure. `bleu`: mean over seeds; `bleu_spread`: sample standard deviation, null for one seed; speeds: means."""


@dataclass(frozen=True)
class Line:
    """One row. `reported`: as the file has it; `ours`: None where the row was not run."""

    id: str
    label: str
    kind: str
    reported: dict[str, float | str | None]
    ours: dict[str, Any] | None


@dataclass(frozen=True)
class Table:
    table: str
    columns: list[str]
    rows: list[Line]
    notes: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """{"table", "columns", "rows": [{"id", "label", "kind", "reported", "ours"}], "notes"}; reported numbers as numbers."""
        rows = [
            {
                "id": line.id,
                "label": line.label,
                "kind": line.kind,
                "reported": {name: number(value) for name, value in line.reported.items()},
                "ours": line.ours,
            }
            for line in self.rows
        ]
        return {"table": self.table, "columns": self.columns, "rows": rows, "notes": self.notes}


def make(name: str, rows: Sequence[Row], finder: Finder, columns: Sequence[str] = (), seeds: Iterable[int] = (), scale: str = "") -> Table:
    """The table of resolved rows.

    `columns`: order of the reported columns (default: as they appear). `scale`: how ours differ from the published setting, for a note.
    """
    seeds = list(seeds)
    outcomes = {row.id: finder.outcomes(row, seeds) for row in rows}
    figures = {row_id: _figures(found) for row_id, found in outcomes.items()}
    base = next((row.id for row in rows if row.kind == "run"), None)
    lines = []
    for row in rows:
        ours = figures[row.id]
        start = row.spec.init_from if row.spec is not None and row.spec.init_from in figures else base
        if ours is not None and start is not None and start != row.id:
            ours = _against(ours, figures[start])
        lines.append(Line(row.id, row.label, row.kind, dict(row.expect), ours))
    order = [*columns, *(c for line in lines for c in line.reported)]
    if any(line.ours is not None and "bleu" in line.ours for line in lines):
        order += OURS
    return Table(
        name,
        list(dict.fromkeys(order)),
        lines,
        ([f"ours: {scale}; not comparable with the paper's numbers"] if scale else []) + _notes(outcomes),
    )


def _figures(found: Sequence[Outcome]) -> dict[str, Any] | None:
    """Means over the seeds that are done; status and reason alone where none is."""
    if not found:
        return None
    done = [o for o in found if o.status == "done" and o.bleu is not None]
    if not done:
        first = found[0]
        return {"status": first.status, "reason": status(first.status, first.reason, first.steps), "seeds": [o.seed for o in found]}
    bleus = [o.bleu for o in done if o.bleu is not None]
    return {
        "status": "done",
        "seeds": [o.seed for o in done],
        "params": done[0].params,
        "bleu": round(statistics.fmean(bleus), 4),
        "bleu_spread": round(statistics.stdev(bleus), 4) if len(bleus) > 1 else None,
        "chrf": _mean(o.chrf for o in done),
        "tokens_per_second": _mean(o.tokens_per_second for o in done),
        "sentences_per_second": _mean(o.sentences_per_second for o in done),
        "steps": [o.steps for o in done],
        "signature": done[0].signature,
        "unfinished": {str(o.seed): status(o.status, o.reason, o.steps) for o in found if o not in done},
    }


def status(name: str, reason: str, steps: int) -> str:
    """`stopped by ASHA at step 400`, `diverged: ...`, `done`."""
    if name == "stopped":
        return reason if reason.startswith("stopped") else f"stopped at step {steps}"
    return f"{name}: {reason}" if reason and name != "done" else name


def _against(ours: dict[str, Any], base: dict[str, Any] | None) -> dict[str, Any]:
    """Differences to the row it starts from, where both have figures."""
    if base is None or "bleu" not in base or "bleu" not in ours:
        return ours
    added = None if ours["params"] is None or base["params"] is None else ours["params"] - base["params"]
    return ours | {"params_added": added, "delta": round(ours["bleu"] - base["bleu"], 4)}


def _mean(values: Iterable[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return round(statistics.fmean(known), 2) if known else None


def _notes(outcomes: dict[str, list[Outcome]]) -> list[str]:
    """Says in what rows differ that should be alike: code, lock, libraries, device, signature."""
    done = [o for found in outcomes.values() for o in found if o.status == "done"]
    capsules = [{k: v for k, v in o.capsule.items() if k not in ("key", "digest")} for o in done if o.capsule is not None]
    differ = differences(capsules)
    notes = [f"rows come from different environments: {', '.join(differ)} differ"] if differ else []
    signatures = sorted({str(o.signature) for o in done})
    return notes + ([f"rows are scored differently: {'; '.join(signatures)}"] if len(signatures) > 1 else [])
