"""Amount of work in training and decoding prepared data: sums of lengths, numbers of updates, steps of a search."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from orchestrator.cost.work import Tokens
from orchestrator.data.store import Pairs, Prepared
from orchestrator.decoding.beam import length_limit
from orchestrator.decoding.translate import batches
from orchestrator.specs.schema import RunSpec
from orchestrator.training.batches import UpdateLoader, total_steps
from orchestrator.training.state import Progress


def tokens_of(src: Any, tgt: Any) -> Tokens:
    """Sums of the lengths, their squares and products over pairs. src, tgt: lengths [N] with EOS."""
    s, t = (np.asarray(side, dtype=np.float64) for side in (src, tgt))
    return Tokens(float(len(s)), *(float(value) for value in (s.sum(), t.sum(), (s * s).sum(), (t * t).sum(), (s * t).sum())))


@dataclass(frozen=True)
class Length:
    """Length of a training.

    updates: an upper bound, because patience or a plateau may end it early. tokens: of a mean update. validations, checkpoints: how many.
    """

    updates: int
    tokens: Tokens
    validations: int
    checkpoints: int


class Lengths:
    """Computes lengths of trainings and searches; memoises them per data, batch and search options."""

    def __init__(self) -> None:
        self._known: dict[Any, Any] = {}

    def _once(self, key: Any, make: Callable[[], Any]) -> Any:
        if key not in self._known:
            self._known[key] = make()
        return self._known[key]

    def training(self, spec: RunSpec, prepared: Prepared) -> Length:
        """Length of a training with its own batches; those of a restart are ignored."""
        train, key = spec.train, (prepared.key, spec.batch.model_dump_json())
        loader: UpdateLoader = self._once(key, lambda: UpdateLoader(prepared.pairs("train"), spec.batch, 1))
        updates = max(1, total_steps(loader, train, Progress()) if train.max_epochs is not None else train.max_steps or 1)
        epochs = loader.epochs_of(updates)

        def times(every: Any) -> int:
            return epochs if every == "epoch" else updates // int(every) + (updates % int(every) > 0)

        mean = self.split(prepared, "train").scaled(epochs / max(1, loader.updates_of(0, epochs)))
        return Length(updates, mean, times(train.validate_every), times(train.checkpoint_every))

    def split(self, prepared: Prepared, name: str) -> Tokens:
        """`tokens_of` a split of the prepared data."""
        pairs = prepared.pairs(name)
        tokens: Tokens = self._once((prepared.key, name), lambda: tokens_of(pairs.src_lengths + 1, pairs.tgt_lengths + 1))
        return tokens

    def row_steps(self, prepared: Prepared, spec: RunSpec) -> int:
        """Hypotheses times steps of the search over the test set if outputs are as long as the references."""
        search, pairs = spec.search, prepared.pairs(spec.score.test)
        key = (prepared.key, spec.score.test, search.max_ratio, search.max_extra, search.max_length)
        groups = lambda: batches(pairs.src_lengths.tolist())  # noqa: E731
        steps: int = self._once(key, lambda: sum(len(group) * expected_steps(pairs, group, spec) for group in groups()))
        return steps * search.beam_size


def expected_steps(pairs: Pairs, indices: list[int], spec: RunSpec) -> int:
    """Expected steps until a batch is done: the average of mean and longest reference, within the limits of the search."""
    search = spec.search
    steps = [min(int(pairs.tgt_lengths[i]) + 1, length_limit(search, int(pairs.src_lengths[i]) + 1)) for i in indices]
    return max(1, round((sum(steps) / len(steps) + max(steps)) / 2))
