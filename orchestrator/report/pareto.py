"""Which rows of a table are not beaten in quality, size and speed at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from orchestrator.scoring.rouge import PRINCIPAL


def front(ours: Mapping[str, Mapping[str, Any] | None]) -> dict[str, bool]:
    """Row -> whether it is on the Pareto front of BLEU (ROUGE-L), parameters and measured training speed; of rows with figures.

    A row is off the front if another has at least its score, at most its parameters, at least its speed, and is better in one of them.
    Speed counts if it was measured for all of these rows (`analyse --kind speed`). Empty with less than two rows.
    """
    found = {row: one for row, one in ours.items() if one is not None and one.get("bleu") is not None and one.get("params") is not None}
    timed = all(one.get("train_speed") is not None for one in found.values())
    points = {row: (one.get(PRINCIPAL, one["bleu"]), -one["params"], one["train_speed"] if timed else 0.0) for row, one in found.items()}
    if len(points) < 2:
        return {}
    return dict(zip(points, unbeaten(list(points.values())), strict=True))


def unbeaten(points: Sequence[tuple[float, ...]]) -> list[bool]:
    """Whether each point is on the front: no other is at least as high in every number and higher in one."""
    return [not any(_beats(other, point) for other in points) for point in points]


def _beats(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one != other and all(a >= b for a, b in zip(one, other, strict=True))
