"""Writes an analysis to files: JSON and CSV of its records, PNG, SVG and PDF of its figure. Equal analyses give identical bytes."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import matplotlib
import pandas as pd
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from orchestrator.analysis import figures
from orchestrator.analysis.base import Analysis, AnalysisContext
from orchestrator.files import atomic

DPI = 200
WIDTHS = {"column": figures.COLUMN, "page": figures.PAGE}


def write(kind: str, analysis: Analysis, context: AnalysisContext, out: Path, width: str | None = None) -> dict[str, Path]:
    """Writes `out`/KIND.{json,csv,png,svg,pdf} (without a figure the first two); returns suffix -> path. Raises OSError naming the file.

    width: of the figure, `column` or `page`; None: the one that suits the analysis.
    """
    subjects = [
        {"id": s.row.id, "label": s.label, "seed": s.spec.seed, "keys": s.keys.as_dict()}
        | ({"asked": s.analysis_row.id} if s.analysis_row else {})
        for s in context.subjects
    ]
    document: dict[str, Any] = {"kind": kind, "options": context.options, "subjects": subjects}
    document = atomic.plain(document | {"columns": analysis.columns, "records": analysis.records, "notes": analysis.notes})
    table = pd.DataFrame(analysis.records, columns=analysis.columns, dtype=object).to_csv(index=False, lineterminator="\n")
    contents = {"json": (json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode(), "csv": table.encode()}
    contents |= images(analysis, WIDTHS[width or analysis.width])
    paths = {suffix: out / f"{kind}.{suffix}" for suffix in contents}
    for suffix, data in contents.items():
        atomic.write_bytes(paths[suffix], data)
    return paths


def images(analysis: Analysis, width: float) -> dict[str, bytes]:
    """Returns the figure by suffix; empty without one. width: inches."""
    found: dict[str, bytes] = {}
    if analysis.draw is None:
        return found
    with matplotlib.rc_context(dict(figures.RC)):
        figure = Figure(figsize=(width, figures.PANEL + 0.3), layout="constrained")
        FigureCanvasAgg(figure)
        analysis.draw(figure, analysis.records)
        # no dates and versions, so that equal figures give identical files
        for suffix, metadata in (("png", {"Software": None}), ("svg", {"Date": None}), ("pdf", {"CreationDate": None})):
            image = io.BytesIO()
            figure.savefig(image, format=suffix, dpi=DPI, metadata=metadata)
            found[suffix] = image.getvalue()
    return found
