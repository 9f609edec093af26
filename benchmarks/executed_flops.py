"""Operations that a piece of code executes, counted by torch as it runs: in training, and in decoding with its packed weights."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

from models.paths import PATHS


def _packed_flops(x: Any, weight: Any, *rest: Any, out_shape: Any = None, **options: Any) -> int:
    """Of a product with packed weights, which torch's own counter does not know."""
    return 2 * x[-1] * int(np.prod(out_shape))


PACKED = {
    getattr(getattr(torch.ops, space), name).default: _packed_flops
    for space, name in (("mkldnn", "_linear_pointwise"), ("onednn", "qlinear_pointwise"))
    if hasattr(getattr(torch.ops, space), name)
}


class _Whole:
    """In place of the counter's tracker of modules, whose autograd hooks cannot be set in inference mode."""

    parents = ("Global",)

    def __enter__(self) -> None: ...

    def __exit__(self, *error: object) -> None: ...


@contextmanager
def counter_of_flops() -> Iterator[FlopCounterMode]:
    """Operations of all modules together, in training and in inference mode; by torch's operations alone, for those in C are not seen."""
    counter = FlopCounterMode(display=False, custom_mapping=PACKED)
    counter.mod_tracker = _Whole()  # type: ignore[assignment]
    with PATHS.without("native"), counter:
        yield counter
