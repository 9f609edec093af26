"""The saved view of the MLflow UI: columns and charts, kept as a tag of the experiment.

A view is a tag `mlflow.sharedViewState.KEY` whose value the UI applies where its address has `viewStateShareKey=KEY`, and lists by name.
The format is that of MLflow 3.17 (`savedViewEnvelope.ts`, `ExperimentPageUIState.tsx`, `runs-charts.types.ts`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

COLOURS = ("#4269d0", "#efb118", "#ff725c", "#6cc5b0", "#3ca951", "#ff8ab7", "#a463f2", "#97bbf5", "#9c6b4e", "#9498a0")
"""Of rows in charts, the same for all seeds (the categorical scheme of Observable Plot)."""

KEY = "nmt"
COLUMNS = {
    "metrics.`bleu`": 120,
    "metrics.`chrf`": 120,
    "metrics.`valid/nll`": 110,
    "metrics.`tokens_per_second`": 150,
    "metrics.`params`": 100,
    "tags.`status`": 220,
}
"""Column -> width in pixels, in order, after the run's name."""

CHARTS = "nmt-charts"
_FOLDED = ("Model metrics", "System metrics", "train", "valid", "rows")
"""Sections of charts that the UI makes by itself from the names of metrics."""


def colours(rows: Iterable[str]) -> dict[str, str]:
    """Name of a row -> its colour, in turn."""
    return {row: COLOURS[number % len(COLOURS)] for number, row in enumerate(rows)}


def _state() -> dict[str, Any]:
    """Columns, and one open section of charts; the other sections are folded."""
    columns = [*COLUMNS, "tags.`row`"]
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


SHARED = {f"mlflow.sharedViewState.{KEY}": json.dumps({"name": "All sweeps", "createdAt": 0, "state": json.dumps(_state())})}
"""The tag of the view."""
