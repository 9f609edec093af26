"""Parts of Vega-Lite specifications. Colours are CSS variables, so that one drawing suits light, dark and paper."""

from collections.abc import Sequence
from typing import Any

Spec = dict[str, Any]


def quantity(field: str, title: str | None, **more: Any) -> Spec:
    return {"field": field, "type": "quantitative", "title": title, **more}


def tip(field: str, title: str = "", form: str = "") -> Spec:
    return {"field": field} | ({"title": title} if title else {}) | ({"format": form} if form else {})


def chart(values: Sequence[Spec], height: int, **rest: Any) -> Spec:
    """A chart as wide as the page."""
    return {"data": {"values": values}, "width": "container", "height": height, **rest}


def layer(mark: Spec, encoding: Spec, only: str = "") -> Spec:
    """only: a condition of the points that are drawn."""
    return ({"transform": [{"filter": only}]} if only else {}) | {"mark": mark, "encoding": encoding}


def zero(axis: str) -> Spec:
    """A line where `axis` is 0."""
    line = layer({"type": "rule", "color": "var(--ink)"}, {axis: {"datum": 0, "type": "quantitative"}})
    return {"data": {"values": [{}]}, **line}
