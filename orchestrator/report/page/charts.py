"""Learning curves as a Vega-Lite specification. Colours are CSS variables, so that one drawing suits light, dark and paper."""

from __future__ import annotations

from typing import Any

from orchestrator.report.figures import short_id
from orchestrator.report.page.curves import METRICS, points
from orchestrator.report.page.section import Section, has_figures, score

COLOURS = 8
"""Of the page (`--c0` to `--c7`). Tables with more rows colour the baseline and the best; the others are grey."""
Spec = dict[str, Any]


def chosen(section: Section) -> list[str]:
    """Rows with a colour of their own: the baseline and the best, in the table's order."""
    lines = [line for line in section.table.rows if line.kind == "run" and section.outcomes.get(line.id)]
    ranked = sorted((line for line in lines if has_figures(line)), key=score, reverse=True)
    first = [line.id for line in lines if line.id == section.table.base] + [line.id for line in ranked] + [line.id for line in lines]
    best = set(list(dict.fromkeys(first))[:COLOURS])
    return [line.id for line in lines if line.id in best]


def curves(section: Section) -> Spec | None:
    """Learning curves with a choice of metric and of seeds or their mean; None without a history."""
    order = [line.id for line in section.table.rows if section.outcomes.get(line.id)]
    data = points(section, order)
    if not data:
        return None
    metrics = [name for name in METRICS.values() if any(point["m"] == name for point in data)]
    seeds = any(point["v"] == "seed" and point["s"] != data[0].get("s") for point in data)
    rows = [{"r": place, "row": short_id(row_id)} for place, row_id in enumerate(order)]
    shown = {"filter": "datum.m == metric && datum.v == view"}
    named = {"lookup": "r", "from": {"data": {"values": rows}, "key": "r", "fields": ["row"]}}
    colour = colour_of(section, "row")
    x = {"field": "x", "type": "quantitative", "title": "updates"}
    y = {"field": "y", "type": "quantitative", "title": None, "scale": {"zero": False}}
    faded = {"condition": {"param": "picked", "value": 1}, "value": 0.12}
    tips = [
        {"field": "row"},
        {"field": "s", "title": "seed"},
        {"field": "x", "title": "update", "format": ","},
        {"field": "y", "title": "value", "format": ".4f"},
    ]
    line = {
        "params": [{"name": "picked", "select": {"type": "point", "fields": ["row"]}, "bind": "legend"}],
        "mark": {"type": "line", "strokeWidth": 1.8, "point": {"size": 16, "filled": True}},
        "encoding": {"x": x, "y": y, "color": colour, "detail": {"field": "s"}, "opacity": faded, "tooltip": tips},
    }
    band = {
        "mark": {"type": "area", "opacity": 0.13},
        "transform": [{"filter": "datum.v == 'mean'"}],
        "encoding": {
            "x": x,
            "y": {**y, "field": "l"},
            "y2": {"field": "h"},
            "color": colour,
            "opacity": {**faded, "condition": {"param": "picked", "value": 0.13}, "value": 0.02},
        },
    }
    views = {"input": "radio", "options": ["mean", "seed"], "labels": ["mean of seeds", "each seed"], "name": "show "}
    return {
        "data": {"values": data},
        "width": "container",
        "height": 320,
        "title": {"text": {"expr": "metric"}, "anchor": "start"},
        "params": [
            {"name": "metric", "value": metrics[0], "bind": {"input": "select", "options": metrics, "name": "figure "}},
            {"name": "view", "value": "mean", **({"bind": views} if seeds else {})},
        ],
        "transform": [named, shown],
        "layer": [band, line],
    }


def colour_of(section: Section, field: str) -> Spec:
    """One colour a row; grey for rows without one of their own, which have no entry in the legend."""
    own = [short_id(row_id) for row_id in chosen(section)]
    all_rows = [short_id(line.id) for line in section.table.rows if section.outcomes.get(line.id)]
    rest = [name for name in all_rows if name not in own]
    colours = [f"var(--c{i})" for i in range(len(own))] + ["var(--grey)"] * len(rest)
    widest = 30 + 7 * max(map(len, own), default=0)  # pixels of an entry with its symbol
    legend = {
        "values": own,
        "title": None,
        "orient": "bottom",
        "columns": {"expr": f"max(1, floor(width / {widest}))"},
        "columnPadding": 16,
        "labelLimit": 0,
        "symbolType": "stroke",
        "symbolStrokeWidth": 3,
        "symbolOpacity": 1,  # else as faint as the bands
    }
    return {"field": field, "type": "nominal", "scale": {"domain": [*own, *rest], "range": colours}, "legend": legend}
