"""What a constructor looks at: sites and configurations that note which of their fields are read."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from torch import nn

from models.config import ModelConfig, StackConfig
from models.site import Site

Place = tuple[str, ...]
"""Names from a Site or a configuration down: ("config", "encoder", "num_layers")."""
NAMES = {cls: frozenset(f.name for f in fields(cls)) for cls in (Site, ModelConfig, StackConfig)}


class _Watching:
    """Reads of a dataclass's fields are noted and answered by the real one; copies (`dataclasses.replace`) are plain, all fields read."""

    def __getattribute__(self, name: str) -> Any:
        inside = object.__getattribute__(self, "__dict__")
        if "_real" not in inside or name not in inside["_names"]:
            return object.__getattribute__(self, name)
        if name == "shared":  # each part makes its own, so that it looks at all that the shared thing depends on
            return inside["_shared"]
        value, place = getattr(inside["_real"], name), (*inside["_place"], name)
        if isinstance(value, (ModelConfig, StackConfig)):
            cls = WatchedConfig if isinstance(value, ModelConfig) else WatchedSide
            return watch(cls, value, place, inside["_looked"], inside["_shared"])
        inside["_looked"][place] = None
        return value


class WatchedSite(_Watching, Site):
    pass


class WatchedConfig(_Watching, ModelConfig):
    pass


class WatchedSide(_Watching, StackConfig):
    pass


def watch(cls: Any, real: Any, place: Place, looked: dict[Place, None], shared: dict[str, nn.Module]) -> Any:
    found = object.__new__(cls)
    found.__dict__.update(_real=real, _place=place, _looked=looked, _shared=shared, _names=NAMES[cls.__mro__[2]])
    return found


def read(root: Any, place: Place) -> Any:
    return frozen(functools.reduce(getattr, place, root))


def unwatched(config: Any) -> tuple[ModelConfig, list[tuple[dict[Place, None], Place]]]:
    """The configuration itself, and who watches it: what they have seen, and where it stands for them."""
    watchers = []
    while "_real" in (inside := object.__getattribute__(config, "__dict__")):
        watchers.append((inside["_looked"], inside["_place"]))
        config = inside["_real"]
    return config, watchers


def frozen(value: Any) -> Any:
    """Hashable, equal for equal plain data; a part that was counted stands for itself."""
    if isinstance(value, (bool, str, int, float, type(None))):
        return (type(value), value)
    if isinstance(value, Mapping):
        return tuple(sorted((name, frozen(item)) for name, item in value.items()))
    if isinstance(value, (list, tuple)):
        return tuple(frozen(item) for item in value)
    return value
