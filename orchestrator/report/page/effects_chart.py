"""A forest plot as a Vega-Lite specification: each row's difference to its strongest control, with its interval, and the paper's."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from typing import Any

from orchestrator.report.figures import short_id
from orchestrator.report.page.charts import Spec
from orchestrator.report.page.section import Section
from orchestrator.report.table import Line

ROW = 18
"""Pixels of a row."""
LETTERS, LETTER = 56, 6.2
"""Longest label of a row; pixels of a letter in the widest of the fonts that a reader may have."""
FAR = 10.0
"""A difference larger than this many times the third quartile of all is named below the plot, not drawn: the others would have no room."""


def effects(section: Section) -> Spec | None:
    """The plot of the rows that have a difference; None below two."""
    found = []
    for line in section.table.rows:
        if not (effect := (line.ours or {}).get("effect")) or "@" in line.id:
            continue
        claim = claim_of(line)
        found.append({"row": _label(line), "delta": effect["delta"], **_ends(effect)} | ({} if claim is None else {"paper": claim}))
    if len(found) < 2:
        return None
    most = FAR * statistics.quantiles([abs(each["delta"]) for each in found], n=4, method="inclusive")[2]
    far = [f"{each['row'].partition(':')[0]} ({each['delta']:+.2f})" for each in found if abs(each["delta"]) > most]
    found = [each for each in found if abs(each["delta"]) <= most]
    order = [each["row"] for each in sorted(found, key=lambda each: -each["delta"])]
    room = math.ceil(LETTER * max(map(len, order)))
    y = {"field": "row", "type": "nominal", "sort": order, "title": None, "axis": {"labelLimit": 0, "minExtent": room}}
    title = "difference in BLEU to the strongest control" + (f"; not drawn: {', '.join(far)}" if far else "")
    x = {"field": "delta", "type": "quantitative", "title": title, "axis": {"tickCount": 8}}
    zero = {"mark": {"type": "rule", "color": "var(--ink)"}, "encoding": {"x": {"datum": 0, "type": "quantitative"}}}
    intervals, reported = any("low" in each for each in found), any("paper" in each for each in found)
    names = {"delta": "ours, with its interval" if intervals else "ours, one seed"}
    names |= {"paper": "the paper"} if reported else {}
    layers: list[Spec] = [{"data": {"values": [{}]}, **zero}, _points(x, y, names, "delta")]
    if intervals:
        layers.append(_bar(x, y))
    if reported:
        layers.append(_points(x, y, names, "paper"))
    return {"data": {"values": found}, "width": "container", "height": ROW * len(found), "layer": layers}


def claim_of(line: Line) -> float | None:
    """The difference that the paper reports, or None."""
    return ((line.ours or {}).get("verdict") or {}).get("claim")


def _ends(effect: Mapping[str, Any]) -> dict[str, float]:
    answer = effect.get("other_seeds_and_sentences")
    return {} if answer is None else {"low": answer["low"], "high": answer["high"]}


def _bar(x: Spec, y: Spec) -> Spec:
    """The intervals."""
    mark = {"type": "rule", "color": "var(--c1)", "strokeWidth": 2}
    return {"mark": mark, "encoding": {"x": {**x, "field": "low"}, "x2": {"field": "high"}, "y": y}}


def _label(line: Line) -> str:
    """The row's name and system, without what is said in brackets, cut to LETTERS."""
    text = f"{short_id(line.id)}: {line.label.partition(' (')[0]}"
    return text if len(text) <= LETTERS else text[: LETTERS - 1].rstrip(" ,") + "…"


_MARKS = {"delta": ("var(--c1)", "circle"), "paper": ("var(--c2)", "diamond")}


def _points(x: Spec, y: Spec, names: Mapping[str, str], field: str) -> Spec:
    """Points of one kind with an entry in the legend. names: field -> what the legend says of it, of all kinds in the plot."""
    legend = {"orient": "top", "title": None, "labelLimit": 0, "columnPadding": 30}
    domain = list(names.values())
    ranges = {channel: [_MARKS[name][place] for name in names] for place, channel in enumerate(("color", "shape"))}
    scales = {
        channel: {"datum": names[field], "scale": {"domain": domain, "range": own}, "legend": legend} for channel, own in ranges.items()
    }
    mark = {"type": "point", "filled": field != "paper", "size": 55 if field == "paper" else 45, "opacity": 1}
    there = [{"filter": f"isValid(datum.{field})"}]
    return {"transform": there, "mark": mark, "encoding": {"x": {**x, "field": field}, "y": y, **scales}}
