"""Scores against parameters and speed as Vega-Lite specifications, with the Pareto front."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from orchestrator.report.figures import short_id
from orchestrator.report.page.charts import Spec, chosen, colour_of
from orchestrator.report.page.section import Section, has_figures, score
from orchestrator.report.pareto import unbeaten
from orchestrator.report.table import Line
from orchestrator.scoring.rouge import PRINCIPAL

WIDTH, HEIGHT = 300, 300
"""Pixels of the narrowest chart: its labels are placed for these."""
Dot = dict[str, Any]
Box = tuple[float, float, float, float]


def quality(section: Section) -> dict[str, Spec]:
    """Name of a chart -> the score against parameters and against speed. Empty below two rows."""
    lines = [line for line in section.table.rows if has_figures(line)]
    if len(lines) < 2:
        return {}
    name = "ROUGE-L" if any(PRINCIPAL in (line.ours or {}) for line in lines) else "BLEU"
    timed = all((line.ours or {}).get("train_speed") for line in lines)
    relative = ("train_speed", "training speed, relative to the baseline")
    speed = relative if timed else ("tokens_per_second", "tokens/s of the runs themselves")
    made = {}
    for field, title, fewer in (("params", "parameters [millions]", True), (*speed, False)):
        dots = [_dot(line, field) for line in lines if (line.ours or {}).get(field) is not None]
        if len({dot["x"] for dot in dots}) > 1:
            made[field] = _scatter(section, dots, title, name, fewer=fewer)
    return made


def _dot(line: Line, field: str) -> Dot:
    ours = line.ours or {}
    x = ours[field] / 1e6 if field == "params" else ours[field]
    spread = ours.get("bleu_spread") if PRINCIPAL not in ours else None
    ends = {} if spread is None else {"low": score(line) - spread, "high": score(line) + spread}
    return {"row": short_id(line.id), "label": line.label, "x": x, "y": score(line), **ends}


def front(dots: Sequence[Dot], *, fewer: bool) -> list[Dot]:
    """The points that no other beats in both x and y, by x. fewer: less of x is better."""
    points = [(dot["y"], -dot["x"] if fewer else dot["x"]) for dot in dots]
    kept = [dot for dot, best in zip(dots, unbeaten(points), strict=True) if best]
    return sorted(kept, key=lambda dot: dot["x"])


def _scatter(section: Section, dots: list[Dot], title: str, name: str, *, fewer: bool) -> Spec:
    best_rows = front(dots, fewer=fewer)
    xs, ys = _domain([dot["x"] for dot in dots]), _domain([dot[end] for dot in dots for end in ("low", "y", "high") if end in dot])
    named = list(dict.fromkeys([*(dot["row"] for dot in best_rows), *map(short_id, chosen(section))]))
    values = labelled(dots, named, xs, ys)
    x = {"field": "x", "type": "quantitative", "title": title, "scale": {"domain": xs, "nice": False}, "axis": {"tickCount": 6}}
    y = {"field": "y", "type": "quantitative", "title": name, "scale": {"domain": ys, "nice": False}}
    tips = [
        {"field": "row"},
        {"field": "label"},
        {"field": "x", "title": title.partition(" [")[0].partition(",")[0]},
        {"field": "y", "title": name, "format": ".2f"},
    ]
    colour = {**colour_of(section, "row"), "legend": None}
    line = {"type": "line", "strokeDash": [4, 3], "color": "var(--muted)", "strokeWidth": 1.2}
    text = {"type": "text", "fontSize": 11, "color": "var(--ink)", **{key: {"expr": f"datum.{key}"} for key in ("align", "dx", "dy")}}
    bars = {
        "mark": {"type": "rule", "opacity": 0.6},
        "encoding": {"x": x, "y": {**y, "field": "low"}, "y2": {"field": "high"}, "color": colour},
    }
    layers: list[Spec] = [
        {
            "data": {"values": best_rows},
            "mark": line | {"interpolate": "step-after" if fewer else "step-before"},
            "encoding": {"x": x, "y": y},
        },
        *([bars] if any("low" in dot for dot in dots) else []),
        {
            "mark": {"type": "point", "filled": True, "size": 60, "opacity": 1},
            "encoding": {"x": x, "y": y, "color": colour, "tooltip": tips},
        },
        {
            "transform": [{"filter": "datum.name"}],
            "mark": text,
            "encoding": {"x": x, "y": y, "text": {"field": "name"}},
        },
    ]
    return {"data": {"values": values}, "width": "container", "height": HEIGHT, "layer": layers}


def _domain(values: Sequence[float]) -> list[float]:
    """The range with a margin, which does not go below zero where no value does."""
    low, high = min(values), max(values)
    margin = 0.07 * (high - low) or 1.0
    return [round(max(low - margin, 0.0) if low >= 0 else low - margin, 4), round(high + margin, 4)]


def labelled(dots: Sequence[Dot], named: Sequence[str], xs: Sequence[float], ys: Sequence[float]) -> list[Dot]:
    """The dots, those of `named` with a label right or left, above or below, where it covers nothing; with none where there is no room."""

    def pixel(dot: Dot) -> tuple[float, float]:
        return (dot["x"] - xs[0]) / (xs[1] - xs[0]) * WIDTH, (ys[1] - dot["y"]) / (ys[1] - ys[0]) * HEIGHT

    taken: list[Box] = [(x - 4, y - 4, x + 4, y + 4) for x, y in map(pixel, dots)]
    places: dict[str, Dot] = {}
    by_row = {dot["row"]: dot for dot in dots}
    for row in (row for row in named if row in by_row):
        x, y = pixel(by_row[row])
        for align, dy in (("left", -5), ("left", 7), ("right", -5), ("right", 7)):
            dx, wide = (7 if align == "left" else -7), 6.2 * len(row)
            left = x + dx - (wide if align == "right" else 0)
            box = (left, y + dy - 6, left + wide, y + dy + 6)
            inside = box[0] >= 0 and box[2] <= WIDTH
            if inside and not any(box[0] < b[2] and b[0] < box[2] and box[1] < b[3] and b[1] < box[3] for b in taken):
                taken.append(box)
                places[row] = {"name": row, "align": align, "dx": dx, "dy": dy}
                break
    return [dot | places.get(dot["row"], {}) for dot in dots]
