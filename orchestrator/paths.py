"""Paths of the product's own files."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SEARCH_SPACES = ROOT / "search_spaces"
PUBLISHED_LEDGER = ROOT / "docs" / "results" / "ledger"
