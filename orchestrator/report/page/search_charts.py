"""Two charts of a search: the expected validation metric by number of trials, and the metric by a drawn value, often the learning rate."""

from collections.abc import Mapping
from typing import Any

from orchestrator.report.page.charts import Spec, chart, colour_of, quantity, shape_of, tip
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
    found = {"trials": _expected(section, curves, f"expected {metric} of the best")}
    if (axis := _axis(searches)) is not None:
        points = [
            {"row": short_id(row), "x": x, "y": round(y, 4), "t": trial["number"], "ended": trial["ended"] is not None}
            for row, record in searches.items()
            for trial in record["trials"]
            if (y := _value(trial)) is not None and (x := trial["changes"].get(axis, record["written"].get(axis))) is not None
        ]
        found["draws"] = _draws(section, points, axis, metric)
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


def _expected(section: Section, values: list[dict[str, Any]], y: str) -> Spec:
    axes = {"x": quantity("x", "trials", axis={"tickMinStep": 1}, scale={"zero": False}), "y": quantity("y", y, scale={"zero": False})}
    tips = [tip("row"), tip("x", "trials"), tip("y", y, ".4f")]
    return chart(values, 260, mark={"type": "line", "point": True}, encoding={**axes, "color": colour_of(section), "tooltip": tips})


def _draws(section: Section, values: list[dict[str, Any]], key: str, y: str) -> Spec:
    log, drawn = key in RATES, [each["x"] for each in values]
    name = "learning rate" if key == RATES[0] else key
    title = name + " (log scale)" * log + "; pale: stopped early" * any(each["ended"] for each in values)
    ticks = [tick for e in range(-9, 3) for m in (1, 2, 5) if min(drawn) <= (tick := float(f"{m}e{e}")) <= max(drawn)]
    axis = {"values": ticks, "format": "~g"} if log and len(ticks) > 1 else {"tickMinStep": 0 if log else 1}
    colour, shape = shape_of(section)
    encoding = {
        "x": quantity("x", title, axis=axis, scale={"type": "log", "nice": False, "padding": 12} if log else {"zero": False}),
        "y": quantity("y", y, scale={"zero": False}),
        "color": colour,
        "shape": shape,
        "opacity": {"condition": {"test": "datum.ended", "value": 0.35}, "value": 1},
        "tooltip": [tip("row"), tip("x", name), tip("y", y, ".4f")],
    }
    return chart(values, 260, mark={"type": "point", "filled": True, "size": 60}, encoding=encoding)
