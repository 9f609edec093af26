"""Each row's difference with its interval, the paper's as a diamond, sorted: a forest plot as a Vega-Lite specification."""

from __future__ import annotations

import math
from collections.abc import Sequence

from orchestrator.report.figures import short_id
from orchestrator.report.page.charts import Spec
from orchestrator.report.page.forest import claim_of, effect_of, ends_of
from orchestrator.report.page.section import Section
from orchestrator.report.table import Line

ROW = 18
"""Pixels of a row."""
LETTERS, LETTER = 56, 6.2
"""Longest label of a row; pixels of a letter in the widest of the fonts that a reader may have."""


def effects(section: Section) -> Spec | None:
    """The plot of the rows that have a difference; None below two."""
    found = []
    for line in section.table.rows:
        if not (effect := effect_of(line)) or "@" in line.id:
            continue
        ends, claim = dict(zip(("low", "high"), ends_of(line) or (), strict=False)), claim_of(line)
        found.append({"row": _label(line), "delta": effect["delta"], **ends} | ({} if claim is None else {"paper": claim}))
    if len(found) < 2:
        return None
    order = [each["row"] for each in sorted(found, key=lambda each: -each["delta"])]
    room = math.ceil(LETTER * max(map(len, order)))
    y = {"field": "row", "type": "nominal", "sort": order, "title": None, "axis": {"labelLimit": 0, "minExtent": room}}
    x = {"field": "delta", "type": "quantitative", "title": "difference from the row that it is compared with", "axis": {"tickCount": 8}}
    zero = {"mark": {"type": "rule", "color": "var(--ink)"}, "encoding": {"x": {"datum": 0, "type": "quantitative"}}}
    intervals, reported = any("low" in each for each in found), any("paper" in each for each in found)
    names = ["ours, with its 95 % interval" if intervals else "ours, one seed", *(["the paper"] if reported else [])]
    layers: list[Spec] = [{"data": {"values": [{}]}, **zero}, _points(x, y, names, 0)]
    if intervals:
        bar = {"type": "rule", "color": "var(--c1)", "strokeWidth": 2}
        layers.append({"mark": bar, "encoding": {"x": {**x, "field": "low"}, "x2": {"field": "high"}, "y": y}})
    if reported:
        layers.append({"transform": [{"filter": "isValid(datum.paper)"}], **_points({**x, "field": "paper"}, y, names, 1)})
    return {"data": {"values": found}, "width": "container", "height": ROW * len(found), "layer": layers}


def _label(line: Line) -> str:
    """The row's name and system, without what is said in brackets, cut to LETTERS."""
    text = f"{short_id(line.id)}: {line.label.partition(' (')[0]}"
    return text if len(text) <= LETTERS else text[: LETTERS - 1].rstrip(" ,") + "…"


def _points(x: Spec, y: Spec, names: Sequence[str], kind: int) -> Spec:
    """Points of one kind, dots for ours and diamonds for the paper's, with an entry in the legend."""
    legend = {"orient": "top", "title": None, "labelLimit": 0, "columnPadding": 50}
    colour = {"domain": names, "range": ["var(--c1)", "var(--c2)"][: len(names)]}
    shape = {"domain": names, "range": ["circle", "diamond"][: len(names)]}
    scales = {channel: {"datum": names[kind], "scale": scale, "legend": legend} for channel, scale in (("color", colour), ("shape", shape))}
    mark = {"type": "point", "filled": kind == 0, "size": (45, 55)[kind], "opacity": 1}
    return {"mark": mark, "encoding": {"x": x, "y": y, **scales}}
