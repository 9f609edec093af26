"""The effects of a ladder against size as a Vega-Lite specification."""

from typing import Any

from orchestrator.report.figures import short_id
from orchestrator.report.ladder import Ladder
from orchestrator.report.page.charts import COLOURS
from orchestrator.report.page.vega import Spec, layer, number, tip, zero
from orchestrator.scoring.significance.sentence_statistics import TITLES


def chart(found: Ladder) -> Spec | None:
    """A panel for each metric: a line for each row over the parameters, with its intervals. None without a point."""
    points: list[dict[str, Any]] = []
    for line in found.lines:
        for each in line.points:
            if each.params:
                known = None if each.effect.difference is None else each.effect.difference.other_sentences
                ends = {} if known is None else {"low": known.low, "high": known.high}
                about = {"row": short_id(line.row), "metric": line.metric, "size": each.profile, "x": each.params}
                points.append(about | {"y": each.effect.delta, **ends})
    rows = list(dict.fromkeys(point["row"] for point in points))
    colours = [f"var(--c{i + 1})" if i + 1 < COLOURS else "var(--grey)" for i in range(len(rows))]
    panels = [_panel(metric, rows, colours) for metric in dict.fromkeys(point["metric"] for point in points)]
    return {"data": {"values": points}, "hconcat": panels} if points else None


def _panel(metric: str, rows: list[str], colours: list[str]) -> Spec:
    x = number("x", "parameters of the baseline", scale={"type": "log", "nice": False, "padding": 16})
    y = number("y", f"difference in {TITLES[metric]}")
    colour = {"field": "row", "type": "nominal", "title": None, "scale": {"domain": rows, "range": colours}, "legend": {"orient": "top"}}
    tips = [tip("row"), tip("size"), tip("y", "difference", "+.3f")]
    line = layer({"type": "line", "point": {"filled": True}}, {"x": x, "y": y, "color": colour, "tooltip": tips})
    ends = {"x": x, "y": {**y, "field": "low"}, "y2": {"field": "high"}, "color": colour}
    bars = layer({"type": "rule", "opacity": 0.6}, ends, "isValid(datum.low)")
    only = [{"filter": f"datum.metric == '{metric}'"}]
    return {"width": 300, "height": 240, "transform": only, "layer": [zero("y"), line, bars]}
