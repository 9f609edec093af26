"""Results that came with the product and were not made here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from orchestrator.ledger import packed
from orchestrator.ledger.results import Ledger
from orchestrator.paths import PUBLISHED_LEDGER
from orchestrator.report.figures import short_id
from orchestrator.report.find import SeedResult


def is_shipped(ledger: Ledger, key: str) -> bool:
    """Whether a run (by its train key) is known from the published ledger alone."""
    if ledger.root.resolve() == PUBLISHED_LEDGER:
        return True
    return bool(ledger.mirrors) and not packed.exists(ledger.run_dir(key) / "train.json")


def shipped(ledger: Ledger, outcomes: Mapping[str, Sequence[SeedResult]]) -> dict[str, list[str]]:
    """Row -> train keys of its shipped runs, of rows all of whose runs are shipped."""
    keys = {row: [o.keys.train for o in found if o.keys.train is not None] for row, found in outcomes.items()}
    return {row: own for row, own in keys.items() if own and all(is_shipped(ledger, key) for key in own)}


def note(ledger: Ledger, rows: Mapping[str, Sequence[str]], total: int) -> list[str]:
    """A note that names the shipped rows and when they were trained; none without any. total: rows that have results."""
    if not rows:
        return []
    ends = [report["t"] for keys in rows.values() for key in keys for report in ledger.history(key)[-1:] if "t" in report]
    days = sorted({datetime.fromtimestamp(end, UTC).strftime("%Y-%m-%d") for end in ends})
    when = f", trained {' to '.join(dict.fromkeys((days[0], days[-1])))}" if days else ""
    which = "all figures of ours" if len(rows) == total else ", ".join(short_id(row) for row in rows)
    return [f"shipped with the product, not run here: {which}{when}"]
