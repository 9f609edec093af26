"""The chart of a ladder: deltas against the parameters of the baseline."""

from typing import Any

from orchestrator.report.ladder import Ladder
from orchestrator.report.page.charts import COLOURS, Spec, layer, quantity, tip, zero
from orchestrator.scoring.significance.sentence_statistics import TITLES
from orchestrator.specs.row import short_id


def of_ladder(found: Ladder) -> Spec | None:
    """Returns a panel per metric with the points of each row over the parameters, and their intervals. None with less than two sizes.

    A line joins the points of a row that has a slope: the others have different controls, data or scorings.
    """
    points: list[dict[str, Any]] = []
    controls: dict[str, dict[str, None]] = {}
    for line in found.lines:
        controls.setdefault(line.row, {}).update({short_id(each.effect.against): None for each in line.points})
    for line in found.lines:
        for each in line.points:
            if each.params:
                known = each.effect.answer
                ends = {} if known is None else {"low": known.low, "high": known.high}
                row = f"{short_id(line.row)} over {' or '.join(controls[line.row])}"
                about = {"row": row, "metric": line.metric, "size": each.profile, "x": each.params, "joined": line.slope is not None}
                points.append(about | {"y": each.effect.delta, **ends})
    rows = list(dict.fromkeys(point["row"] for point in points))
    colours = [f"var(--c{i + 1})" if i + 1 < COLOURS else "var(--grey)" for i in range(len(rows))]
    axis = {"values": sorted({point["x"] for point in points}), "format": ".2s", "labelOverlap": True}
    panels = [_size_panel(metric, rows, colours, axis) for metric in dict.fromkeys(point["metric"] for point in points)]
    return {"data": {"values": points}, "hconcat": panels} if len({point["size"] for point in points}) > 1 else None


def _size_panel(metric: str, rows: list[str], colours: list[str], axis: Spec) -> Spec:
    x = quantity("x", "parameters of the baseline (log scale)", scale={"type": "log", "nice": False, "padding": 16}, axis=axis)
    y = quantity("y", f"delta of {TITLES[metric]}")
    colour = {
        "field": "row",
        "type": "nominal",
        "title": None,
        "scale": {"domain": rows, "range": colours},
        "legend": {"orient": "top", "columns": 1, "labelLimit": 0, "symbolOpacity": 1},
    }
    tips = [tip("row"), tip("size"), tip("y", "delta", "+.3f")]
    line = layer({"type": "line"}, {"x": x, "y": y, "color": colour}, "datum.joined")
    dots = layer({"type": "point", "filled": True, "opacity": 1}, {"x": x, "y": y, "color": colour, "tooltip": tips})
    ends = {"x": x, "y": {**y, "field": "low"}, "y2": {"field": "high"}, "color": colour}
    bars = layer({"type": "rule", "opacity": 0.6}, ends, "isValid(datum.low)")
    only = [{"filter": f"datum.metric == '{metric}'"}]
    return {"width": 300, "height": 240, "transform": only, "layer": [zero("y"), line, bars, dots]}
