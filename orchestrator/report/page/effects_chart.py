"""Each row's difference with its interval, the paper's as a diamond, sorted: a forest plot as a Vega-Lite specification."""

from __future__ import annotations

from orchestrator.report.figures import short_id
from orchestrator.report.page.charts import Spec
from orchestrator.report.page.forest import claim_of, effect_of, ends_of
from orchestrator.report.page.section import Section

ROW = 18
"""Pixels of a row."""


def effects(section: Section) -> Spec | None:
    """The plot of the rows that have a difference; None below two."""
    found = []
    for line in section.table.rows:
        if not (effect := effect_of(line)) or "@" in line.id:
            continue
        ends, claim = dict(zip(("low", "high"), ends_of(line) or (), strict=False)), claim_of(line)
        found.append({"row": short_id(line.id), "delta": effect["delta"], **ends} | ({} if claim is None else {"paper": claim}))
    if len(found) < 2:
        return None
    order = [each["row"] for each in sorted(found, key=lambda each: -each["delta"])]
    y = {"field": "row", "type": "nominal", "sort": order, "title": None}
    x = {"field": "delta", "type": "quantitative", "title": "difference to the row that it is compared with"}
    zero = {"mark": {"type": "rule", "color": "var(--ink)"}, "encoding": {"x": {"datum": 0, "type": "quantitative"}}}
    layers: list[Spec] = [
        {"data": {"values": [{}]}, **zero},
        {"mark": {"type": "point", "filled": True, "size": 45, "color": "var(--c1)", "opacity": 1}, "encoding": {"x": x, "y": y}},
    ]
    if any("low" in each for each in found):
        bar = {"type": "rule", "color": "var(--c1)", "strokeWidth": 2}
        layers.append({"mark": bar, "encoding": {"x": {**x, "field": "low"}, "x2": {"field": "high"}, "y": y}})
    if any("paper" in each for each in found):
        diamond = {"type": "point", "shape": "diamond", "size": 55, "color": "var(--c2)", "opacity": 1}
        reported = {"transform": [{"filter": "isValid(datum.paper)"}], "encoding": {"x": {**x, "field": "paper"}, "y": y}}
        layers.append({"mark": diamond, **reported})
    return {"data": {"values": found}, "width": "container", "height": ROW * len(found), "layer": layers}
