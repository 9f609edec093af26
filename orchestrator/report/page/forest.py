"""A forest plot as a Vega-Lite specification: differences to the strongest control in BLEU and in nll, with their intervals."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from orchestrator.report.figures import short_id
from orchestrator.report.page.charts import Spec
from orchestrator.report.page.claims_table import judgements
from orchestrator.report.page.section import Section

ROW = 18
"""Pixels of a row of one corpus; another corpus takes half as much more."""
LETTERS, LETTER = 60, 5.6
"""Longest label of a row; pixels of a letter in the widest of the fonts that a reader may have."""
FAR = 10.0
"""A difference larger than this many times the third quartile of all is named below the plot, not drawn: the others would have no room."""
WIDTHS = {"bleu": 300, "nll": 170}
_TITLES = {"bleu": "BLEU, better to the right", "nll": "test nll, better to the left"}
_COLOURS = ("var(--c1)", "var(--c3)", "var(--c4)", "var(--c5)", "var(--c6)", "var(--c7)")


def claim_of(found: Mapping[str, Any]) -> float | None:
    """The claimed difference of a judgement, or None."""
    return (found.get("verdict") or {}).get("claim", found.get("claim"))


def forest(sections: Sequence[Section], *, twice: bool = False) -> Spec | None:
    """The plot of all claims of these tables; None below two. twice: only of claims that have results on a second corpus too."""
    points = [point for section in sections for point in _points(section, twice, several=len(sections) > 1)]
    if len(points) < 2:
        return None
    third = statistics.quantiles([abs(each["bleu"]) for each in points], n=4, method="inclusive")[2]
    far = [f"{each['row'].partition(':')[0]} ({each['bleu']:+.2f})" for each in points if abs(each["bleu"]) > FAR * third]
    points = [each for each in points if abs(each["bleu"]) <= FAR * third]
    corpora = list(dict.fromkeys(each["corpus"] for each in points))
    order = list(dict.fromkeys(each["row"] for each in points))
    if len(sections) == 1:
        order.sort(key=lambda row: -next(each["bleu"] for each in points if each["row"] == row))
    axis = {"labelLimit": 0, "minExtent": math.ceil(LETTER * max(map(len, order)))}
    panels = []
    for metric in ("bleu", "nll"):
        if any(metric in each for each in points):
            y = {"field": "row", "type": "nominal", "sort": order, "title": None, "axis": axis if metric == "bleu" else None}
            panels.append(_panel(metric, y, corpora, len(order), far, paper=any("paper" in each for each in points)))
    return {"data": {"values": points}, "hconcat": panels}


def _points(section: Section, twice: bool, several: bool) -> list[dict[str, Any]]:
    """{"row", "corpus", "bleu", "bleu_low", "bleu_high", "nll", .., "paper"} of each claim and corpus."""
    labels = {line.id: line.label.partition(" (")[0] for line in section.table.rows}
    found = []
    for one in judgements(section.table):
        pair = (one["row"], one["against"])
        second = {
            corpus: other
            for corpus, table in section.second.items()
            for other in judgements(table)
            if (other["row"], other["against"]) == pair
        }
        if not one.get("effect") or (twice and not second):
            continue
        over = f"{labels[one['row']]} over {short_id(one['effect']['against'])}"
        text = f"{over} ({one['row'].split('/')[0]})" if several else f"{short_id(one['row'])}: {over}"
        label = text if len(text) <= LETTERS else text[: LETTERS - 1].rstrip(" ,") + "…"
        data = next((str(line.ours["data"]) for line in section.table.rows if line.id == one["row"] and line.ours), "")
        for corpus, each in {_plain(data): one, **{_plain(corpus): other for corpus, other in second.items()}}.items():
            if each.get("effect"):
                claim = claim_of(each) if each is one else None
                point: dict[str, Any] = {"row": label, "corpus": corpus} | ({} if claim is None else {"paper": claim})
                found.append(point | _ends("bleu", each["effect"]) | _ends("nll", (each.get("nll") or {}).get("effect") or {}))
    return found


def _plain(corpus: str) -> str:
    """The corpus without its languages, for tables of several directions."""
    return re.sub("-[a-z]{2}-[a-z]{2}$", "", corpus)


def _ends(metric: str, effect: Mapping[str, Any]) -> dict[str, float]:
    if "delta" not in effect:
        return {}
    answer = effect.get("other_seeds_and_sentences")
    ends = {} if answer is None else {f"{metric}_low": answer["low"], f"{metric}_high": answer["high"]}
    return {metric: effect["delta"], **ends}


def _panel(metric: str, y: Spec, corpora: Sequence[str], rows: int, far: Sequence[str], *, paper: bool) -> Spec:
    """One metric: a line at zero, intervals and points by corpus, and the paper's value as a diamond."""
    title = _TITLES[metric] + (f"; not drawn: {', '.join(far)}" if far and metric == "bleu" else "")
    x = {"field": metric, "type": "quantitative", "title": title, "axis": {"tickCount": 6 if metric == "bleu" else 4}}
    legend = {"orient": "top", "title": None, "labelLimit": 0, "columnPadding": 30}
    domain = [*corpora, *(["the paper"] if paper else [])]
    colour = {"scale": {"domain": domain, "range": [*_COLOURS[: len(corpora)], "var(--c2)"][: len(domain)]}, "legend": legend}
    shape = {"scale": {"domain": domain, "range": [*["circle"] * len(corpora), "diamond"][: len(domain)]}, "legend": legend}
    offset = {"yOffset": {"field": "corpus", "type": "nominal", "sort": list(corpora)}} if len(corpora) > 1 else {}
    by = {"y": y, **offset, "color": {"field": "corpus", "type": "nominal", **colour}}
    layers: list[Spec] = [
        {
            "data": {"values": [{}]},
            "mark": {"type": "rule", "color": "var(--ink)"},
            "encoding": {"x": {"datum": 0, "type": "quantitative"}},
        },
        {
            "transform": [{"filter": f"isValid(datum.{metric}_low)"}],
            "mark": {"type": "rule", "strokeWidth": 2},
            "encoding": {**by, "x": {**x, "field": f"{metric}_low"}, "x2": {"field": f"{metric}_high"}},
        },
        {
            "transform": [{"filter": f"isValid(datum.{metric})"}],
            "mark": {"type": "point", "filled": True, "size": 40, "opacity": 1},
            "encoding": {**by, "x": x, "shape": {"field": "corpus", "type": "nominal", **shape}},
        },
    ]
    if paper and metric == "bleu":
        layers.append(
            {
                "transform": [{"filter": "isValid(datum.paper)"}],
                "mark": {"type": "point", "size": 50, "opacity": 1},
                "encoding": {
                    "y": y,
                    **({"yOffset": {"datum": corpora[0]}} if len(corpora) > 1 else {}),
                    "x": {**x, "field": "paper"},
                    "color": {"datum": "the paper", **colour},
                    "shape": {"datum": "the paper", **shape},
                },
            }
        )
    return {"width": WIDTHS[metric], "height": round((0.5 + 0.5 * len(corpora)) * ROW) * rows, "layer": layers}
