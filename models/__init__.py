"""Models for neural machine translation with replaceable layer fusion. torch and the standard library only."""

from models.cache import Cache
from models.transformer import Transformer, build, count_parameters

__all__ = ["Cache", "Transformer", "build", "count_parameters"]
