"""Linear maps that are made ready for decoding when they are first used."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import Tensor, nn

Map = Callable[[Tensor], Tensor]
Make = Callable[[Sequence[nn.Linear], str], Map]
"""(linear maps of one input, "relu" or "none" behind them) -> one map."""


class AtFirstUse:
    """The map that `make` makes, made when it is called: of some linear maps only a joint one is ever used."""

    def __init__(self, make: Make, maps: Sequence[nn.Linear], after: str = "none") -> None:
        self.make: Callable[[], Map] = lambda: make(maps, after)
        self.found: Map | None = None

    def made(self) -> Map:
        if self.found is None:
            self.found = self.make()
        return self.found

    def __call__(self, x: Tensor) -> Tensor:
        return self.made()(x)
