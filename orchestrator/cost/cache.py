"""Probes on disk: RESULTS/probes/KEY16.json, whole or not there. Deleting the folder only forgets them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from orchestrator.cost.about import key_of
from orchestrator.files import atomic
from orchestrator.ledger.keys import short

FOLDER = "probes"
MEASURES = ("train_flops", "train_seconds", "valid_flops", "valid_seconds", "row_steps", "decode_seconds", "decode_weights")
"""What every probe holds: what was done, in FLOP or hypotheses times steps, and how long it took; and the weights that a target position
meets."""


def write(results: Path, about: dict[str, Any], measures: dict[str, Any]) -> None:
    """Durably and atomically; a later probe of the same replaces it."""
    key = key_of(about)
    atomic.write_json(results / FOLDER / f"{short(key)}.json", {"key": key, "about": about, "measures": measures})


def read_all(results: Path) -> dict[str, dict[str, Any]]:
    """Key -> {"about", "measures"}; a file that is damaged or another's is passed over, as if nothing had been probed."""
    found: dict[str, dict[str, Any]] = {}
    folder = results / FOLDER
    for path in sorted(folder.glob("*.json")) if folder.is_dir() else []:
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
            if key_of(record["about"]) == record["key"] and all(record["measures"][name] >= 0 for name in MEASURES):
                found[record["key"]] = record
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return found
