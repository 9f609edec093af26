"""The saved view of the MLflow UI: columns, kept as a tag of the experiment.

A view is a tag `mlflow.sharedViewState.KEY` whose value the UI applies where its address has `viewStateShareKey=KEY`, and lists by name.
The format is that of MLflow 3.17 (`savedViewEnvelope.ts`, `ExperimentPageUIState.tsx`).
"""

from __future__ import annotations

import json

KEY = "nmt"
COLUMNS = {
    "metrics.`bleu`": 120,
    "metrics.`chrf`": 120,
    "metrics.`valid/nll`": 110,
    "metrics.`tokens_per_second`": 150,
    "metrics.`params`": 100,
    "tags.`status`": 220,
    "tags.`row`": 160,
}
"""Column -> width in pixels, in order, after the run's name."""

_STATE = {"selectedColumns": [*COLUMNS], "columnOrder": [*COLUMNS], "columnWidths": COLUMNS, "runsHiddenMode": "FIRST_20_RUNS"}
SHARED = {f"mlflow.sharedViewState.{KEY}": json.dumps({"name": "All sweeps", "createdAt": 0, "state": json.dumps(_STATE)})}
"""The tag of the view."""
