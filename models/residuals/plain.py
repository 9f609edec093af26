"""The Transformer's residual."""

from __future__ import annotations

from models.registry import RESIDUALS
from models.seams import Residual


@RESIDUALS.register("plain")
class Plain(Residual):
    """x + y (Vaswani et al. 2017)."""
