"""Fast forms of the same arithmetic. Each is on by itself where it is safe, and can be taken out, to compare or to look for a fault.

NMT_SLOW=packing,dropout takes some out for a process; `Paths.without` for the time of a `with`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields


@dataclass
class Paths:
    """True: on.

    packing: padding leaves the batch in training (models.packing). dropout: cheap exact masks (models.dropout). attention: two batched
    products in place of torch's fused kernel on a CPU. joint_maps: queries, keys and values in one product. chunked_loss: no full logits
    (models.loss). fused_optimizer: its update in one kernel. matmul: fp32
    products by oneDNN where it is faster and still fp32. bf16: bf16 products of Muon, loss and decoding in fp32 on CPUs without
    instructions for them (models.precision). native: decoding's small steps in C where there is a compiler (models.native).
    """

    packing: bool = True
    dropout: bool = True
    attention: bool = True
    joint_maps: bool = True
    chunked_loss: bool = True
    fused_optimizer: bool = True
    matmul: bool = True
    bf16: bool = True
    native: bool = True

    @classmethod
    def names(cls) -> list[str]:
        return [field.name for field in fields(cls)]

    @classmethod
    def of(cls, slow: str) -> Paths:
        """All but those named, separated by commas. ValueError: an unknown name."""
        off = [name.strip() for name in slow.split(",") if name.strip()]
        for name in off:
            if name not in cls.names():
                raise ValueError(f"NMT_SLOW: found {name}; expected some of {', '.join(cls.names())}")
        return cls(**dict.fromkeys(off, False))

    @contextmanager
    def without(self, *names: str) -> Iterator[None]:
        before = {name: getattr(self, name) for name in names}
        for name in names:
            setattr(self, name, False)
        try:
            yield
        finally:
            for name, value in before.items():
                setattr(self, name, value)


def _of_environment() -> Paths:
    try:
        return Paths.of(os.environ.get("NMT_SLOW", ""))
    except ValueError as error:  # asked for by a person, answered as bad input is: one line, exit code 2
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(2) from None


PATHS = _of_environment()
"""Of this process."""
