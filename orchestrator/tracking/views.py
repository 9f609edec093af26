"""Saved views of the MLflow UI: columns, groups and charts, kept as tags of the experiment.

A view is a tag `mlflow.sharedViewState.KEY` whose value the UI applies where its address has `viewStateShareKey=KEY`, and lists by name.
The format is that of MLflow 3.17 (`savedViewEnvelope.ts`, `ExperimentPageUIState.tsx`, `runs-charts.types.ts`).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from orchestrator.tracking.names import valid_name

COLOURS = ("#4269d0", "#efb118", "#ff725c", "#6cc5b0", "#3ca951", "#ff8ab7", "#a463f2", "#97bbf5", "#9c6b4e", "#9498a0")
"""Of rows in charts, the same for all seeds (the categorical scheme of Observable Plot)."""

PREFIX = "mlflow.sharedViewState."
ALL, BEST = "nmt", "nmt-best"
"""Keys of the views of all sweeps: by time, below their sweeps; and single runs by BLEU."""

COLUMNS = {
    "metrics.`bleu`": 120,
    "metrics.`chrf`": 120,
    "metrics.`valid/nll`": 110,
    "metrics.`tokens_per_second`": 150,
    "metrics.`params`": 100,
    "tags.`status`": 220,
}
"""Column -> width in pixels, in order, after the run's name."""

RUNS = "tags.`nmt.kind` = 'run'"
CHARTS = "nmt-charts"
_FOLDED = ("Model metrics", "System metrics", "train", "valid", "rows")
"""Sections of charts that the UI makes by itself from the names of metrics."""


def colours(rows: Iterable[str]) -> dict[str, str]:
    """Name of a row -> its colour, in turn."""
    return {row: COLOURS[number % len(COLOURS)] for number, row in enumerate(rows)}


def shared() -> dict[str, str]:
    """Tags of the views that every experiment has."""
    return {
        f"{PREFIX}{ALL}": _envelope("All sweeps", _state(("tags.`row`",)), 0),
        f"{PREFIX}{BEST}": _envelope("Best BLEU first", _state() | _by_bleu(RUNS), 0),
    }


def key_of(sweep_id: str, *identity: str) -> str:
    """The key of a sweep's view, part of a tag's name. identity: what tells it from sweeps of other ledgers on the same server."""
    return f"{valid_name(sweep_id[:80])}-{hashlib.sha256(chr(10).join(identity).encode()).hexdigest()[:8]}"


def of_sweep(key: str, name: str, filters: dict[str, str], started: int) -> dict[str, str]:
    """The tag of a sweep's view: its runs by BLEU, seeds of a row together. started: milliseconds since 1970."""
    query = " and ".join([RUNS, *(f"tags.`{tag}` = '{value}'" for tag, value in filters.items())])
    groups = {"groupBy": {"aggregateFunction": "average", "groupByKeys": [{"mode": "tag", "groupByData": "row"}]}}
    return {f"{PREFIX}{key}": _envelope(name, _state() | _by_bleu(query) | groups, started)}


def newest(tags: Mapping[str, str], most: int) -> list[tuple[str, str]]:
    """Keys and names of the last sweeps' views among the tags of an experiment."""
    found = []
    for key, value in tags.items():
        if key.startswith(PREFIX) and key not in shared() and key == valid_name(key):  # views of earlier versions have other characters
            with contextlib.suppress(ValueError, TypeError, KeyError):
                view = json.loads(value)
                found.append((float(view["createdAt"]), key.removeprefix(PREFIX), str(view["name"])))
    return [(key, name) for _, key, name in sorted(found, reverse=True)[:most]]


def _envelope(name: str, state: dict[str, Any], created: int) -> str:
    return json.dumps({"name": name, "createdAt": created, "state": json.dumps(state)})


def _by_bleu(query: str) -> dict[str, Any]:
    return {"orderByKey": "metrics.`bleu`", "orderByAsc": False, "searchFilter": query}


def _state(more: tuple[str, ...] = ()) -> dict[str, Any]:
    """Columns, and one open section of charts; the other sections are folded. more: columns after COLUMNS."""
    columns = [*COLUMNS, *more]
    sections = [{"uuid": CHARTS, "name": "Comparison", "display": True, "isReordered": True}]
    sections += [{"uuid": f"nmt-{name}", "name": name, "display": False, "isReordered": True} for name in _FOLDED]
    return {
        "selectedColumns": columns,
        "columnOrder": columns,
        "columnWidths": COLUMNS,
        "compareRunCharts": _charts(),
        "compareRunSections": sections,
        "isAccordionReordered": True,
        "runsHiddenMode": "FIRST_20_RUNS",
    }


def _charts() -> list[dict[str, Any]]:
    """Curves of the losses and of BLEU at rungs, then bars, then test BLEU against speed. Charts without a value are hidden by the UI."""
    curves = ("valid/nll", "train/nll", "valid/bleu")
    charts = [_chart("LINE", key, metricKey=key, xAxisKey="step", useGlobalXaxisKey=True, useGlobalLineSmoothing=True) for key in curves]
    charts += [_chart("BAR", key, metricKey=key) for key in ("bleu", "tokens_per_second")]
    axes = {"xaxis": {"key": "tokens_per_second", "type": "METRIC"}, "yaxis": {"key": "bleu", "type": "METRIC"}}
    return [*charts, _chart("SCATTER", "bleu by speed", **axes)]


def _chart(kind: str, name: str, **options: Any) -> dict[str, Any]:
    about = {"type": kind, "uuid": f"nmt-{name}", "metricSectionId": CHARTS, "runsCountToCompare": 100}
    return about | {"deleted": False, "isGenerated": False} | options
