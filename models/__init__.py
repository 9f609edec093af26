"""Models for neural machine translation with replaceable layer fusion. torch and the standard library only.

The names below are loaded at first use: `models.config` and `models.registry` do not need torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from models.cache import Cache
    from models.transformer import Transformer, build, count_parameters

__all__ = ["Cache", "Transformer", "build", "count_parameters"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("models.cache" if name == "Cache" else "models.transformer"), name)
