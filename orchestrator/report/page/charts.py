"""Charts as Vega-Lite specifications: learning curves; scores against parameters and speed.

Colours are CSS variables, so that one drawing suits light, dark and paper.
"""

import math
import statistics
from collections.abc import Sequence
from typing import Any

from orchestrator.report.figures import Ours
from orchestrator.report.ladder import MACHINE
from orchestrator.report.page.section import Section
from orchestrator.report.table import Line
from orchestrator.scoring.rouge import PRINCIPAL
from orchestrator.specs.row import short_id
from orchestrator.tracking.history import number

Spec = dict[str, Any]


def quantity(field: str, title: str | None, **more: Any) -> Spec:
    return {"field": field, "type": "quantitative", "title": title, **more}


def tip(field: str, title: str = "", form: str = "") -> Spec:
    return {"field": field} | ({"title": title} if title else {}) | ({"format": form} if form else {})


def chart(values: Sequence[Spec], height: int, **rest: Any) -> Spec:
    """Returns a chart with the width of the page."""
    return {"data": {"values": values}, "width": "container", "height": height, **rest}


def layer(mark: Spec, encoding: Spec, only: str = "") -> Spec:
    """Returns a layer of a chart. only: condition on the points to draw."""
    return ({"transform": [{"filter": only}]} if only else {}) | {"mark": mark, "encoding": encoding}


def zero(axis: str) -> Spec:
    """Returns a line at 0 of `axis`."""
    line = layer({"type": "rule", "color": "var(--ink)"}, {axis: {"datum": 0, "type": "quantitative"}})
    return {"data": {"values": [{}]}, **line}


def limit(values: Sequence[float]) -> float:
    """Returns the largest absolute value to draw: ten times the third quartile. Larger ones are named, for they make the axis too wide."""
    return 10.0 * statistics.quantiles(map(abs, values), n=4, method="inclusive")[2] or math.inf


def left_out(names: Sequence[str]) -> Spec:
    """Returns the line below a chart that names what it leaves out; {} if it draws all."""
    style = {"orient": "bottom", "anchor": "start", "fontSize": 11, "fontWeight": "normal", "color": "var(--ink)", "limit": 0}
    return {"title": {"text": ["not drawn:", *names], **style}} if names else {}


COLOURS = 8
"""Number of colours of the page (`--c0` to `--c7`). Tables with more rows colour the baseline and the best row; other rows are grey."""


def chosen(section: Section) -> list[str]:
    """Returns the rows with their own colour: the baseline and the best, in the table's order."""
    lines = [line for line in section.table.rows if line.kind == "run" and section.outcomes.get(line.id)]
    ranked = sorted((line for line in lines if line.score is not None), key=lambda line: line.score or 0.0, reverse=True)
    first = [line.id for line in lines if line.id == section.table.base] + [line.id for line in ranked] + [line.id for line in lines]
    best = set(list(dict.fromkeys(first))[:COLOURS])
    return [line.id for line in lines if line.id in best]


def curves(section: Section) -> Spec | None:
    """Returns learning curves with a choice of the metric, and of seeds or their mean; None without a history."""
    order = [line.id for line in section.table.rows if section.outcomes.get(line.id)]
    data = points(section, order)
    if not data:
        return None
    metrics = [name for name in METRICS.values() if any(point["m"] == name for point in data)]
    seeds = any(point["v"] == "seed" and point["s"] != data[0].get("s") for point in data)
    rows = [{"r": place, "row": short_id(row_id)} for place, row_id in enumerate(order)]
    shown = {"filter": "datum.m == metric && datum.v == view"}
    named = {"lookup": "r", "from": {"data": {"values": rows}, "key": "r", "fields": ["row"]}}
    colour = colour_of(section)
    x, y = quantity("x", "updates"), quantity("y", None, scale={"zero": False})
    faded = {"condition": {"param": "picked", "value": 1}, "value": 0.12}
    tips = [tip("row"), tip("s", "seed"), tip("x", "update", ","), tip("y", "value", ".4f")]
    line = layer(
        {"type": "line", "strokeWidth": 1.8, "point": {"size": 16, "filled": True}},
        {"x": x, "y": y, "color": colour, "detail": {"field": "s"}, "opacity": faded, "tooltip": tips},
    )
    pale = {"condition": {"param": "picked", "value": 0.13}, "value": 0.02}
    band = layer(
        {"type": "area", "opacity": 0.13},
        {"x": x, "y": {**y, "field": "l"}, "y2": {"field": "h"}, "color": colour, "opacity": pale},
        "datum.v == 'mean'",
    )
    views = {"input": "radio", "options": ["mean", "seed"], "labels": ["mean of seeds", "each seed"], "name": "show "}
    return chart(
        data,
        320,
        title={"text": {"expr": "metric"}, "anchor": "start"},
        params=[
            {"name": "metric", "value": metrics[0], "bind": {"input": "select", "options": metrics, "name": "figure "}},
            {"name": "view", "value": "mean", **({"bind": views} if seeds else {})},
        ],
        transform=[named, shown],
        layer=[band, line | {"params": [{"name": "picked", "select": {"type": "point", "fields": ["row"]}, "bind": "legend"}]}],
    )


SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-left", "triangle-right")


def shape_of(section: Section) -> tuple[Spec, Spec]:
    """Returns colours and shapes of points, one per row, with one legend."""
    colour = colour_of(section)
    legend = {name: value for name, value in colour["legend"].items() if name not in ("symbolType", "symbolStrokeWidth")}
    domain = colour["scale"]["domain"]
    shapes = {"domain": domain, "range": [*SHAPES, *["circle"] * len(domain)][: len(domain)]}
    return colour | {"legend": legend}, colour | {"legend": legend, "scale": shapes}


def colour_of(section: Section) -> Spec:
    """Returns one colour per row. Rows without their own colour are grey, which the legend's title says."""
    own = [short_id(row_id) for row_id in chosen(section)]
    all_rows = [short_id(line.id) for line in section.table.rows if section.outcomes.get(line.id)]
    rest = [name for name in all_rows if name not in own]
    colours = [f"var(--c{i})" for i in range(len(own))] + ["var(--grey)"] * len(rest)
    widest = 30 + 7 * max(map(len, own), default=0)  # pixels of an entry with its symbol
    legend = {
        "values": own,
        "title": "grey: other rows" if rest else None,
        "titleFontWeight": "normal",
        "orient": "bottom",
        "columns": {"expr": f"max(1, floor(width / {widest}))"},
        "columnPadding": 16,
        "labelLimit": 0,
        "symbolType": "stroke",
        "symbolStrokeWidth": 3,
        "symbolOpacity": 1,  # else as faint as the bands
    }
    return {"field": "row", "type": "nominal", "scale": {"domain": [*own, *rest], "range": colours}, "legend": legend}


METRICS = {"valid/nll": "validation nll", "train/nll": "training nll", "valid/bleu": "validation BLEU"}
MOST_POINTS = 40
"""Maximum number of points of a curve. A page with 100 rows and three seeds stays below 5 MB."""


def points(section: Section, order: Sequence[str]) -> list[Spec]:
    """{"r": place of the row in `order`, "v": "seed" or "mean", "s": seed, "m": metric, "x": update, "y": value, "l", "h": least and most}.

    Unfinished runs are included, because their curves show the reason.
    """
    found: list[Spec] = []
    for place, row_id in enumerate(order):
        runs = {o.seed: _curves(section, o.keys.train) for o in section.outcomes.get(row_id, ()) if o.keys.train is not None}
        for metric, title in METRICS.items():
            about = {"r": place, "m": title}
            seeds = {seed: curve for seed, curves in runs.items() if (curve := curves.get(metric))}
            for seed, curve in seeds.items():
                found += [about | {"v": "seed", "s": seed, "x": x, "y": round(y, 4)} for x, y in thinned(curve)]
            found += [about | point for point in thinned(_mean([*seeds.values()]))]
    return found


def _curves(section: Section, key: str) -> dict[str, list[tuple[int, float]]]:
    ledger = section.finder.ledger
    reports = {int(report["step"]): report for report in ledger.history(key)}
    for step, rung in ledger.read_rungs(key).items():
        reports[step] = {**rung, **reports.get(step, {})}
    values = {metric: [(step, number(reports[step].get(metric))) for step in sorted(reports)] for metric in METRICS}
    return {metric: [(step, value) for step, value in curve if value is not None] for metric, curve in values.items()}


def thinned(curve: Sequence[Any]) -> list[Any]:
    """Returns at most MOST_POINTS points at even distances, including the first and the last."""
    if len(curve) <= MOST_POINTS:
        return list(curve)
    return [curve[round(i * (len(curve) - 1) / (MOST_POINTS - 1))] for i in range(MOST_POINTS)]


def _mean(curves: Sequence[Sequence[tuple[int, float]]]) -> list[Spec]:
    """Returns the mean at the steps that all seeds have."""
    by_step: dict[int, list[float]] = {}
    for step, value in sorted(point for curve in curves for point in curve):
        by_step.setdefault(step, []).append(value)
    return [
        {"v": "mean", "x": step, "y": round(statistics.fmean(own), 4), "l": round(min(own), 4), "h": round(max(own), 4)}
        for step, own in by_step.items()
        if len(own) == len(curves)
    ]


def quality(section: Section) -> dict[str, Spec]:
    """Returns chart name -> chart of the score against parameters or speed. Empty with less than two rows.

    The runs' own speeds are drawn if all runs had equal machines.
    """
    lines = [(line, line.ours, y) for line in section.table.rows if line.ours is not None and (y := line.score) is not None]
    if len(lines) < 2:
        return {}
    name = "ROUGE-L" if any(PRINCIPAL in ours.scores for _, ours, _ in lines) else "BLEU"
    middle = statistics.median(y for *_, y in lines)
    most = limit([y - middle for *_, y in lines])
    far = [f"{short_id(line.id)} ({y:.2f})" for line, _, y in lines if abs(y - middle) > most]
    lines = [each for each in lines if abs(each[2] - middle) <= most]
    timed = all(ours.train_speed for _, ours, _ in lines)
    machines = {tuple((o.capsule or {}).get(name) for name in MACHINE) for line, *_ in lines for o in section.done(line.id)}
    relative = ("train_speed", "training speed, relative to the baseline")
    speed = relative if timed else ("tokens_per_second", "tokens/s of the runs themselves")
    made = {}
    for field, title, fewer in (("params", "parameters [millions]", True), (*speed, False)):
        unit = 1e6 if field == "params" else 1.0
        dots = [_dot(line, ours, x / unit, y) for line, ours, y in lines if (x := getattr(ours, field)) is not None]
        alike = not dots or max(dot["x"] for dot in dots) < 1.01 * min(dot["x"] for dot in dots)  # within one percent
        if not alike and (field != "tokens_per_second" or len(machines) == 1):
            made[field] = _scatter(section, dots, title, name, fewer=fewer) | left_out(far)
    return made


def _dot(line: Line, ours: Ours, x: float, y: float) -> Spec:
    spread = None if PRINCIPAL in ours.scores else ours.bleu_spread
    ends = {} if spread is None else {"low": y - spread, "high": y + spread}
    return {"row": short_id(line.id), "label": line.label, "x": x, "y": y, **ends}


def front(dots: Sequence[Spec], *, fewer: bool) -> list[Spec]:
    """Returns the points that no other point beats in both x and y, in order of x. fewer: smaller x is better."""
    points = [(dot["y"], -dot["x"] if fewer else dot["x"]) for dot in dots]
    kept = [dot for dot, (y, x) in zip(dots, points, strict=True) if not any(b >= y and a >= x and (b, a) != (y, x) for b, a in points)]
    return sorted(kept, key=lambda dot: dot["x"])


def _scatter(section: Section, dots: list[Spec], title: str, name: str, *, fewer: bool) -> Spec:
    best_rows = front(dots, fewer=fewer)
    xs, ys = _domain([dot["x"] for dot in dots]), _domain([dot[end] for dot in dots for end in ("low", "y", "high") if end in dot])
    x = quantity("x", title, scale={"domain": xs, "nice": False}, axis={"tickCount": 6})
    y = quantity("y", name, scale={"domain": ys, "nice": False})
    tips = [tip("row"), tip("label"), tip("x", title.partition(" [")[0].partition(",")[0]), tip("y", name, ".2f")]
    colour, shape = shape_of(section)
    step = {"strokeDash": [4, 3], "color": "var(--muted)", "strokeWidth": 1.2, "interpolate": "step-after" if fewer else "step-before"}
    layers = [{"data": {"values": best_rows}, **layer({"type": "line", **step}, {"x": x, "y": y})}]
    if any("low" in dot for dot in dots):
        ends = {"x": x, "y": {**y, "field": "low"}, "y2": {"field": "high"}, "color": colour}
        layers.append(layer({"type": "rule", "opacity": 0.6}, ends))
    point = {"type": "point", "filled": True, "size": 60, "opacity": 1}
    layers.append(layer(point, {"x": x, "y": y, "color": colour, "shape": shape, "tooltip": tips}))
    return chart(dots, 300, layer=layers)


def _domain(values: Sequence[float]) -> list[float]:
    """Returns the range of the values with a margin. It is not negative if no value is negative."""
    low, high = min(values), max(values)
    margin = 0.07 * (high - low) or 1.0
    return [round(max(low - margin, 0.0) if low >= 0 else low - margin, 4), round(high + margin, 4)]
