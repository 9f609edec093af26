"""Paths of the product's own files."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SEARCH_SPACES = ROOT / "search_spaces"
PUBLISHED_LEDGER = ROOT / "docs" / "results" / "ledger"


def published_ledgers() -> list[Path]:
    """Returns the read-only ledgers of the product."""
    return [PUBLISHED_LEDGER] if PUBLISHED_LEDGER.is_dir() else []


def profile_names() -> list[str]:
    """Returns the names of the product's profiles."""
    return sorted(path.stem for path in (SEARCH_SPACES / "profiles").glob("*.yaml"))


def user_cache() -> Path:
    """Returns the product's folder in the user's cache, for data that can be made again: `$XDG_CACHE_HOME/nmt-ablate`."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "nmt-ablate"


def own_search_spaces() -> Path:
    """The user's own tables and corpora, laid out as `search_spaces`: NMT_SEARCH_SPACES, else that folder of the working folder."""
    return Path(os.environ.get("NMT_SEARCH_SPACES") or "search_spaces").absolute()


def search_spaces() -> list[Path]:
    """The product's search spaces, then the user's own where these are others."""
    own = own_search_spaces()
    return [SEARCH_SPACES] if own.resolve() == SEARCH_SPACES else [SEARCH_SPACES, own]


def places(path: Path) -> list[Path]:
    """Returns the path and, if it lies in the user's own search spaces, the same place in the product's."""
    own, whole = own_search_spaces().resolve(), Path(os.path.realpath(path))
    return [path, SEARCH_SPACES / whole.relative_to(own)] if whole.is_relative_to(own) and own != SEARCH_SPACES else [path]


def in_search_spaces(path: Path) -> Path:
    """Returns the path. If the user's own search spaces lack this file and the product has it: the product's file."""
    return next((place for place in places(path) if place.exists()), path)
