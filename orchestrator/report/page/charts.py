"""The interactive charts as Vega-Lite specifications. Colours are CSS variables, so that one drawing suits light, dark and paper."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from orchestrator.report.figures import short_id
from orchestrator.report.page.curves import METRICS, points
from orchestrator.report.page.section import Section, has_figures, score
from orchestrator.report.pareto import unbeaten
from orchestrator.report.table import Line
from orchestrator.scoring.rouge import PRINCIPAL

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
    colour = _colour(section, "row")
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


def quality(section: Section) -> dict[str, Spec]:
    """Name of a chart -> the score against parameters and against speed, with the Pareto front of the two. Empty below two rows."""
    lines = [line for line in section.table.rows if has_figures(line)]
    if len(lines) < 2:
        return {}
    name = "ROUGE-L" if any(PRINCIPAL in (line.ours or {}) for line in lines) else "BLEU"
    timed = all((line.ours or {}).get("train_speed") for line in lines)
    speed = (
        ("train_speed", "training speed, relative to the baseline, measured in one run")
        if timed
        else ("tokens_per_second", "target tokens/s of the runs themselves (machines and their load differ)")
    )
    made = {}
    for field, title, fewer in (("params", "parameters [millions]", True), (*speed, False)):
        values = [_dot(section, line, field) for line in lines if (line.ours or {}).get(field) is not None]
        if len({value["x"] for value in values}) > 1:
            made[field] = _scatter(section, values, title, name, fewer=fewer)
    return made


def _dot(section: Section, line: Line, field: str) -> dict[str, Any]:
    ours = line.ours or {}
    x = ours[field] / 1e6 if field == "params" else ours[field]
    spread = ours.get("bleu_spread") if PRINCIPAL not in ours else None
    ends = {} if spread is None else {"low": round(score(line) - spread, 3), "high": round(score(line) + spread, 3)}
    return {"row": short_id(line.id), "label": line.label, "x": round(x, 4), "y": round(score(line), 3), **ends}


def front(values: Sequence[dict[str, Any]], *, fewer: bool) -> list[dict[str, Any]]:
    """The points that no other beats in both x and y, by x. fewer: less of x is better."""
    points = [(value["y"], -value["x"] if fewer else value["x"]) for value in values]
    kept = [value for value, best in zip(values, unbeaten(points), strict=True) if best]
    return sorted(kept, key=lambda value: value["x"])


def _scatter(section: Section, values: list[dict[str, Any]], title: str, name: str, *, fewer: bool) -> Spec:
    best_rows = front(values, fewer=fewer)
    named = {value["row"] for value in best_rows} | {short_id(row) for row in chosen(section)}
    values = [value | {"name": value["row"] if value["row"] in named else ""} for value in values]
    x = {"field": "x", "type": "quantitative", "title": title, "scale": {"zero": False, "padding": 24}}
    y = {"field": "y", "type": "quantitative", "title": name, "scale": {"zero": False}}
    tips = [
        {"field": "row"},
        {"field": "label"},
        {"field": "x", "title": title.partition(" [")[0].partition(",")[0]},
        {"field": "y", "title": name, "format": ".2f"},
    ]
    colour = {**_colour(section, "row"), "legend": None}
    layers: list[Spec] = [
        {
            "data": {"values": best_rows},
            "mark": {
                "type": "line",
                "strokeDash": [4, 3],
                "color": "var(--muted)",
                "strokeWidth": 1.2,
                "interpolate": "step-after" if fewer else "step-before",
            },
            "encoding": {"x": x, "y": y},
        },
        {
            "mark": {"type": "rule", "opacity": 0.6},
            "encoding": {"x": x, "y": {**y, "field": "low"}, "y2": {"field": "high"}, "color": colour},
        },
        {
            "mark": {"type": "point", "filled": True, "size": 60, "opacity": 1},
            "encoding": {"x": x, "y": y, "color": colour, "tooltip": tips},
        },
        {
            "mark": {"type": "text", "align": "left", "dx": 7, "dy": -5, "fontSize": 11, "color": "var(--ink)"},
            "encoding": {"x": x, "y": y, "text": {"field": "name"}},
        },
    ]
    if not any("low" in value for value in values):
        del layers[1]
    return {"data": {"values": values}, "width": "container", "height": 300, "layer": layers}


def _colour(section: Section, field: str) -> Spec:
    """One colour a row; grey for rows without one of their own, which have no entry in the legend."""
    own = [short_id(row_id) for row_id in chosen(section)]
    all_rows = [short_id(line.id) for line in section.table.rows if section.outcomes.get(line.id)]
    rest = [name for name in all_rows if name not in own]
    colours = [f"var(--c{i})" for i in range(len(own))] + ["var(--grey)"] * len(rest)
    legend = {"values": own, "title": None, "orient": "bottom", "columns": 4, "symbolType": "stroke", "symbolStrokeWidth": 3}
    return {"field": field, "type": "nominal", "scale": {"domain": [*own, *rest], "range": colours}, "legend": legend}
