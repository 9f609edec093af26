"""An analysis as files: JSON and CSV of its records, PNG and SVG of its figure. The same analysis gives the same bytes."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

from orchestrator.analysis.base import Analysis, Context
from orchestrator.files import atomic

DPI = 150


def write(analysis: Analysis, context: Context, out: Path) -> dict[str, Path]:
    """Writes `out`/KIND.{json,csv,png,svg} -> ending: path; without a figure the first two. OSError names the file."""
    contents = {"json": _json(analysis, context), "csv": _csv(analysis)}
    if analysis.draw is not None:
        contents |= _figure(analysis)
    files = {ending: out / f"{analysis.kind}.{ending}" for ending in contents}
    for ending, data in contents.items():
        atomic.write_bytes(files[ending], data)
    return files


def document(analysis: Analysis, context: Context) -> dict[str, Any]:
    """The JSON file: columns, records, notes, and of what they are: rows, seeds, keys, options."""
    subjects = [
        {"id": s.row.id, "label": s.label, "seed": s.spec.seed, "keys": s.keys.as_dict()} | ({"asked": s.asked.id} if s.asked else {})
        for s in context.subjects
    ]
    about = {"kind": analysis.kind, "options": context.options, "subjects": subjects}
    plain: dict[str, Any] = atomic.plain(about | {"columns": analysis.columns, "records": analysis.records, "notes": analysis.notes})
    return plain


def _json(analysis: Analysis, context: Context) -> bytes:
    return (json.dumps(document(analysis, context), indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()


def _csv(analysis: Analysis) -> bytes:
    """Comma separated, one head line; what is not known is an empty cell."""
    text = io.StringIO()
    writer = csv.DictWriter(text, analysis.columns, restval="", extrasaction="raise", lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: "" if value is None else value for name, value in record.items()} for record in analysis.records)
    return text.getvalue().encode()


def _figure(analysis: Analysis) -> dict[str, bytes]:
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    assert analysis.draw is not None
    images: dict[str, bytes] = {}
    # a fixed salt and no date: the same figure is the same file
    with matplotlib.rc_context({"svg.hashsalt": "nmt-ablate", "font.size": 9, "axes.titlesize": 9, "axes.grid": False}):
        figure = Figure(figsize=(7.0, 4.2), layout="constrained")
        FigureCanvasAgg(figure)
        analysis.draw(figure)
        for ending, about in (("png", {"Software": None}), ("svg", {"Date": None})):
            image = io.BytesIO()
            figure.savefig(image, format=ending, dpi=DPI, metadata=about)
            images[ending] = image.getvalue()
    return images
