"""Speeds measured by `nmt-ablate analyse --kind speed`: RESULTS/speed/KEY16.json. Rows of one file ran together and are comparable.

{"measured": "2026-01-31T12:00:00", "rows": [{"id", "train_key", "train_speed": [updates/s of each round], "decode_speed": [..]}, ..]}
"""

import statistics
from collections.abc import Collection, Mapping
from typing import Any

from orchestrator.files.documents import read_or_tell
from orchestrator.ledger.results import Ledger

FOLDER = "speed"
SPEEDS = ("train_speed", "decode_speed")
"""Columns of speeds; a ratio above 1 is faster than the baseline."""


def ratios(ledger: Ledger, keys: Mapping[str, Collection[str]], base: str) -> tuple[dict[str, dict[str, float]], dict[str, Any] | None]:
    """Returns {row: speeds relative to row `base`} and the measurement they come from, ({}, None) without one.

    keys: train keys of each row, of any seed. Prefers the measurement with the most of these rows, then the latest. Damaged files are
    named and skipped.
    """
    best: tuple[int, str, dict[str, dict[str, float]], dict[str, Any]] | None = None
    for document in _documents(ledger):
        found = _ratios(document, keys, base)
        rank = (len(found), str(document.get("measured", "")))
        if found and (best is None or rank > best[:2]):
            best = (*rank, found, document)
    return ({}, None) if best is None else best[2:]


def _ratios(document: dict[str, Any], keys: Mapping[str, Collection[str]], base: str) -> dict[str, dict[str, float]]:
    rows = {str(row.get("train_key")): row for row in document["rows"] if isinstance(row, dict)}
    measured = {row_id: rows[key] for row_id, known in keys.items() for key in sorted(known) if key in rows}
    if base not in measured:
        return {}
    return {
        row_id: {name: ratio for name in SPEEDS if (ratio := ratio_of(row.get(name), measured[base].get(name))) is not None}
        for row_id, row in measured.items()
    }


def ratio_of(rates: Any, base: Any) -> float | None:
    """Median over rounds of the ratio of two rates, so that a temporary slowdown affects both. None for lists that do not match."""
    if not isinstance(rates, list) or not isinstance(base, list) or len(rates) != len(base) or not rates:
        return None
    if not all(isinstance(rate, (int, float)) and rate > 0 for rate in (*rates, *base)):
        return None
    return statistics.median(own / other for own, other in zip(rates, base, strict=True))


def _documents(ledger: Ledger) -> list[dict[str, Any]]:
    found = []
    for root in (ledger.root, *ledger.mirrors):
        for path in sorted((root / FOLDER).glob("*.json")):
            document = read_or_tell(path)
            if document is not None and isinstance(document.get("rows"), list):
                found.append(document)
    return found
