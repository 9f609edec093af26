"""Converts a run to what MLflow stores: reports (`history.jsonl`) to points of metrics, names and texts to those that a server accepts."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from orchestrator.safe_text import visible
from orchestrator.tracking.environment import redact

MAX_KEY = 250
_FORBIDDEN = re.compile(r"[^\w\-. :/]", re.ASCII)


class Point(NamedTuple):
    """One value of a metric. `time`: milliseconds since 1970."""

    key: str
    value: float
    time: int
    step: int


def flatten(value: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """`{"a": {"b": 1}, "c": [2]}` -> ("a.b", 1), ("c.0", 2). Empty mappings and lists are yielded unchanged."""
    parts = dict(enumerate(value)) if isinstance(value, (list, tuple)) else value
    if isinstance(parts, Mapping) and parts:
        for name, item in parts.items():
            yield from flatten(item, f"{prefix}.{name}" if prefix else str(name))
    else:
        yield prefix, value


def number(value: Any) -> float | None:
    """A number as float; None for anything else. Files have null in place of NaN and infinities (`files.json_lines`)."""
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


FIRST = ("valid/nll", "train/nll")
"""Written before the others: the UI's comparison opens with the metric that a run had first."""


def read_points(reports: Iterable[Mapping[str, Any]], start: int) -> list[Point]:
    """Metrics in order, to five digits. If a step is reported again after a crash, the first report counts.

    The time of a point is its line's `t` (seconds), else `start` plus its step in ms, so that a rebuilt store is the same.
    """
    points: list[Point] = []
    last: dict[str, int] = {}
    for line in reports:
        step = line.get("step")
        if not isinstance(step, int):
            continue
        time = int(line["t"] * 1000) if isinstance(line.get("t"), (int, float)) else start + step
        figures = {name: item for name, item in line.items() if name not in ("step", "t", "key", "total_steps", "rung")}
        for key, value in flatten({name: figures[name] for name in FIRST if name in figures} | figures):
            if (metric_value := number(value)) is None or step <= last.get(key, -1):
                continue
            last[key] = step
            points.append(Point(key, metric_value if metric_value.is_integer() else float(f"{metric_value:.5g}"), time, step))
    return points


def valid_name(name: str) -> str:
    """A valid key of a metric, parameter or tag: letters, digits and `_-. :/`, and no path that has a shorter form (`a//b`, `../a`)."""
    parts = [re.sub(r"^\.*$|^\.\.", "_", part) for part in _FORBIDDEN.sub("_", name).split("/")]
    key = "/".join(parts)
    return key if len(key) <= MAX_KEY else key[:MAX_KEY].rstrip("/.")


def text(value: Any, limit: int) -> str:
    """A parameter or tag: redacted, control characters but line ends escaped (PostgreSQL refuses NUL), and cut to `limit` characters."""
    plain = redact("" if value is None else value if isinstance(value, str) else repr(value) if isinstance(value, float) else str(value))
    plain = "\n".join(map(visible, plain.split("\n")))
    return plain if len(plain) <= limit else plain[: limit - 3] + "..."
