"""Writes an analysis to files: JSON and CSV of its records, PNG, SVG and PDF of its figure. Equal analyses give identical bytes."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
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


def write(analysis: Analysis, context: AnalysisContext, out: Path, width: str | None = None) -> dict[str, Path]:
    """Writes `out`/KIND.{json,csv,png,svg,pdf} (without a figure the first two); returns suffix -> path. Raises OSError naming the file.

    width: of the figure, `column` or `page`; None: the one that suits the analysis.
    """
    contents = {"json": _json(analysis, context), "csv": _csv(analysis)}
    if analysis.draw is not None:
        contents |= _images(analysis.draw, WIDTHS[width or analysis.width])
    paths = {suffix: out / f"{analysis.kind}.{suffix}" for suffix in contents}
    for suffix, data in contents.items():
        atomic.write_bytes(paths[suffix], data)
    return paths


def _json(analysis: Analysis, context: AnalysisContext) -> bytes:
    """Returns the kind, options, subjects (rows, seeds, keys), columns, records and notes as JSON."""
    subjects = [
        {"id": s.row.id, "label": s.label, "seed": s.spec.seed, "keys": s.keys.as_dict()}
        | ({"asked": s.analysis_row.id} if s.analysis_row else {})
        for s in context.subjects
    ]
    document: dict[str, Any] = {"kind": analysis.kind, "options": context.options, "subjects": subjects}
    document = atomic.plain(document | {"columns": analysis.columns, "records": analysis.records, "notes": analysis.notes})
    return (json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()


def _csv(analysis: Analysis) -> bytes:
    """Returns the records as CSV with a header; missing values are empty cells."""
    return pd.DataFrame(analysis.records, columns=analysis.columns, dtype=object).to_csv(index=False, lineterminator="\n").encode()


def _images(draw: Callable[[Figure], None], width: float) -> dict[str, bytes]:
    images: dict[str, bytes] = {}
    with matplotlib.rc_context(dict(figures.RC)):
        figure = Figure(figsize=(width, figures.PANEL + 0.3), layout="constrained")
        FigureCanvasAgg(figure)
        draw(figure)
        # no dates and versions, so that equal figures give identical files
        for suffix, metadata in (("png", {"Software": None}), ("svg", {"Date": None}), ("pdf", {"CreationDate": None})):
            image = io.BytesIO()
            figure.savefig(image, format=suffix, dpi=DPI, metadata=metadata)
            images[suffix] = image.getvalue()
    return images
