"""Looks up the measures of `asha` in its records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from orchestrator.analysis.base import Records


def shares(records: Records) -> list[tuple[dict[str, Any], str]]:
    """Returns (record of a share, suffix of its measures), the real sweep last."""
    return [(r, suffix) for suffix in ("", "_real") for r in records if r["measure"] == f"share{suffix}"]


def same_rungs(records: Records, share: Mapping[str, Any]) -> dict[str, Any]:
    """Maps each measure to its record with the reduction factor and rungs of `share`."""
    key = (share.get("reduction_factor"), share["rungs"])
    return {r["measure"]: r for r in records if (r.get("reduction_factor"), r["rungs"]) == key}
