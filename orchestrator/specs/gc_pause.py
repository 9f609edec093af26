"""Pauses Python's cyclic garbage collector while many small long-lived objects are created."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_garbage_collection(*, freeze: bool = False) -> Iterator[None]:
    """Pauses collection: traversing objects that are all alive took a third of the time of planning 10,000 rows.

    With freeze=True the objects that exist at the end are never traversed again; meant for commands that end their process.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if freeze:
            gc.freeze()
        if enabled:
            gc.enable()
