"""Speeds measured by `nmt-ablate analyse --kind speed`: RESULTS/speed/KEY16.json. Rows of one file ran together and are comparable.

{"measured": "2026-01-31T12:00:00", "rows": [{"id", "train_key", "train_speed": [updates/s of each round], "decode_speed": [..]}, ..]}
"""

import statistics
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from orchestrator.ledger.results import Ledger

FOLDER = "speed"
SPEEDS = ("train_speed", "decode_speed")
"""Columns of speeds; a ratio above 1 is faster than the baseline."""


def ratios(ledger: Ledger, keys: Mapping[str, Collection[str]], base: str) -> tuple[dict[str, dict[str, float]], dict[str, Any] | None]:
    """Returns {row: speeds relative to row `base`} and the measurement they come from, ({}, None) without one.

    keys: train keys of each row, of any seed. Prefers the measurement with the most of these rows, then the latest.
    """
    best: tuple[int, str, dict[str, dict[str, float]], dict[str, Any]] | None = None
    for document in ledger.documents(FOLDER):
        found = _ratios(document, keys, base)
        rank = (len(found), str(document.get("measured", "")))
        if found and (best is None or rank > best[:2]):
            best = (*rank, found, document)
    return ({}, None) if best is None else best[2:]


def _ratios(document: dict[str, Any], keys: Mapping[str, Collection[str]], base: str) -> dict[str, dict[str, float]]:
    rows = {str(row["train_key"]): row for row in document["rows"]}
    measured = {row_id: rows[key] for row_id, known in keys.items() for key in sorted(known) if key in rows}
    if base not in measured:
        return {}
    return {
        row_id: {name: ratio for name in SPEEDS if (ratio := ratio_of(row.get(name), measured[base].get(name))) is not None}
        for row_id, row in measured.items()
    }


def ratio_of(rates: Sequence[float] | None, base: Sequence[float] | None) -> float | None:
    """Median over rounds of the ratio of two rates, so that a temporary slowdown affects both. None for lists that do not match."""
    if not rates or not base or len(rates) != len(base) or min(*rates, *base) <= 0:
        return None
    return statistics.median(own / other for own, other in zip(rates, base, strict=True))
