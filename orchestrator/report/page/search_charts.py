"""Two charts of a search: the expected validation metric by number of trials, and the metric by a drawn value, often the learning rate."""

from collections.abc import Mapping
from typing import Any

from orchestrator.report.page.charts import Spec, chart, colour_of, quantity, tip
from orchestrator.report.page.section import Section
from orchestrator.scoring.significance.expected_best import expected_best
from orchestrator.specs.row import short_id
from orchestrator.specs.sweep import LARGER_IS_BETTER

RATES = ("optim.schedule.lr", "optim.schedule.factor")


def drawings(section: Section) -> dict[str, Spec]:
    """Returns {"trials": .., "draws": ..}; {} for a table without tuned rows."""
    searches = section.searches
    if not searches:
        return {}
    select = str(next(iter(searches.values()))["tune"]["select"])
    metric = select.replace("valid/", "validation ")
    curves = []
    for row, record in searches.items():
        values = [value for trial in record["trials"] if (value := _value(trial)) is not None]
        best = expected_best(values, larger=select in LARGER_IS_BETTER)
        curves += [{"row": short_id(row), "x": n, "y": round(y, 4)} for n, y in enumerate(best, 1)]
    found = {"trials": _chart(section, curves, "trials", f"expected {metric} of the best", {"type": "line", "point": True})}
    if (axis := _axis(searches)) is not None:
        points = [
            {"row": short_id(row), "x": x, "y": round(y, 4), "t": trial["number"], "ended": trial["ended"] is not None}
            for row, record in searches.items()
            for trial in record["trials"]
            if (y := _value(trial)) is not None and (x := trial["changes"].get(axis, record["written"].get(axis))) is not None
        ]
        found["draws"] = _chart(section, points, axis, metric, {"type": "point", "filled": True, "size": 60}, log=axis in RATES)
    return found


def _value(trial: Mapping[str, Any]) -> float | None:
    """Returns the value at the end of the trial, or at the rung that ended it."""
    value: float | None = trial["value"] if trial["value"] is not None else trial["at_rung"]
    return value


def _axis(searches: Mapping[str, Mapping[str, Any]]) -> str | None:
    """Returns the key that all arms draw: the learning rate, else the first number."""
    known = [{*record["written"]} for record in searches.values()]
    numbers = [n for n, v in next(iter(searches.values()))["written"].items() if isinstance(v, (int, float)) and not isinstance(v, bool)]
    common = [name for name in numbers if all(name in each for each in known)]
    return next((name for name in RATES if name in common), common[0] if common else None)


def _chart(section: Section, values: list[dict[str, Any]], x: str, y: str, mark: Spec, *, log: bool = False) -> Spec:
    scale = {"type": "log", "nice": False, "padding": 12} if log else {"zero": False}
    encoding = {
        "x": quantity("x", x, axis={"tickMinStep": 0 if log else 1}, scale=scale),
        "y": quantity("y", y, scale={"zero": False}),
        "color": colour_of(section),
        **({"opacity": {"condition": {"test": "datum.ended", "value": 0.35}, "value": 1}} if mark["type"] == "point" else {}),
        "tooltip": [tip("row"), tip("x", x), tip("y", y, ".4f")],
    }
    return chart(values, 260, mark=mark, encoding=encoding)
