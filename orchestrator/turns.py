"""A training as a generator, so that several can take turns: it yields where it needs an update's gradients."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from torch import Tensor

from orchestrator.feed import Update

if TYPE_CHECKING:
    from orchestrator.train import Training

T = TypeVar("T")


class Turn(NamedTuple):
    """`training` stands before `update`; its gradients are cleared."""

    training: Training
    update: Update


class Log(NamedTuple):
    """What the gradients of an update leave beside themselves: sums for the meter, and the seconds they took."""

    sums: dict[str, Tensor]
    seconds: float


Turns = Generator[Turn, Log, T]


def alone(turns: Turns[T]) -> T:
    """Each update by the training itself."""
    try:
        turn = next(turns)
        while True:
            turn = turns.send(turn.training.gradients(turn.update))
    except StopIteration as end:
        result: T = end.value
        return result
