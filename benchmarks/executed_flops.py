"""Counts the floating-point operations that a piece of code executes, with torch's counter, in training and decoding (packed weights)."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from switches import without
from torch.utils.flop_counter import FlopCounterMode


def _packed_flops(x: Any, weight: Any, *rest: Any, out_shape: Any = None, **options: Any) -> int:
    """Returns the operations of a product with packed weights, which torch's own counter does not support."""
    return 2 * x[-1] * int(np.prod(out_shape))


PACKED = {torch.ops.mkldnn._linear_pointwise: _packed_flops} if hasattr(torch.ops.mkldnn, "_linear_pointwise") else {}


class _Whole:
    """Replaces the counter's module tracker, whose autograd hooks cannot be set in inference mode."""

    parents = ("Global",)

    def __enter__(self) -> None: ...

    def __exit__(self, *error: object) -> None: ...


@contextmanager
def counter_of_flops() -> Iterator[FlopCounterMode]:
    """Counts the operations of all modules, in training and in inference mode; turns off our C kernels, which the counter cannot see."""
    counter = FlopCounterMode(display=False, custom_mapping=PACKED)
    counter.mod_tracker = _Whole()  # type: ignore[assignment]
    with without("native"), counter:
        yield counter
