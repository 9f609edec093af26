"""Scores against parameters and speed as Vega-Lite specifications, with the Pareto front."""

from collections.abc import Sequence
from typing import Any

from orchestrator.report.figures import short_id, unbeaten
from orchestrator.report.page.charts import colour_of
from orchestrator.report.page.section import Section, has_figures, score
from orchestrator.report.page.vega import Spec, chart, layer, number, tip
from orchestrator.report.table import Line
from orchestrator.scoring.rouge import PRINCIPAL

Dot = dict[str, Any]


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
    x = number("x", title, scale={"domain": xs, "nice": False}, axis={"tickCount": 6})
    y = number("y", name, scale={"domain": ys, "nice": False})
    tips = [tip("row"), tip("label"), tip("x", title.partition(" [")[0].partition(",")[0]), tip("y", name, ".2f")]
    colour = colour_of(section)
    step = {"strokeDash": [4, 3], "color": "var(--muted)", "strokeWidth": 1.2, "interpolate": "step-after" if fewer else "step-before"}
    layers = [{"data": {"values": best_rows}, **layer({"type": "line", **step}, {"x": x, "y": y})}]
    if any("low" in dot for dot in dots):
        ends = {"x": x, "y": {**y, "field": "low"}, "y2": {"field": "high"}, "color": colour}
        layers.append(layer({"type": "rule", "opacity": 0.6}, ends))
    point = {"type": "point", "filled": True, "size": 60, "opacity": 1}
    layers.append(layer(point, {"x": x, "y": y, "color": colour, "tooltip": tips}))
    return chart(dots, 300, layer=layers)


def _domain(values: Sequence[float]) -> list[float]:
    """The range with a margin, which does not go below zero where no value does."""
    low, high = min(values), max(values)
    margin = 0.07 * (high - low) or 1.0
    return [round(max(low - margin, 0.0) if low >= 0 else low - margin, 4), round(high + margin, 4)]
