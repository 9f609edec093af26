"""Amount of work in training and decoding prepared data: sums of lengths, numbers of updates, steps of a search."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from models.flops import Tokens
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


def of_pairs(pairs: Pairs) -> Tokens:
    """`tokens_of` a whole split."""
    return tokens_of(pairs.src_lengths + 1, pairs.tgt_lengths + 1)


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
        self._loaders: dict[tuple[str, str], tuple[UpdateLoader, Tokens]] = {}
        self._splits: dict[tuple[str, str], Tokens] = {}
        self._steps: dict[tuple[str, str, float, int, int | None], int] = {}

    def training(self, spec: RunSpec, prepared: Prepared) -> Length:
        """Length of a training with its own batches; those of a restart are ignored."""
        loader, tokens = self._loader(spec, prepared)
        train = spec.train
        updates = max(1, total_steps(loader, train, Progress()) if train.max_epochs is not None else train.max_steps or 1)
        epochs = loader.epochs_of(updates)

        def times(every: Any) -> int:
            return epochs if every == "epoch" else updates // int(every) + (updates % int(every) > 0)

        mean = tokens.scaled(epochs / max(1, loader.updates_of(0, epochs)))
        return Length(updates, mean, times(train.validate_every), times(train.checkpoint_every))

    def _loader(self, spec: RunSpec, prepared: Prepared) -> tuple[UpdateLoader, Tokens]:
        """The updates of a training and the tokens of an epoch."""
        key = (prepared.key, spec.batch.model_dump_json())
        if key not in self._loaders:
            pairs = prepared.pairs("train")
            self._loaders[key] = UpdateLoader(pairs, spec.batch, 1), of_pairs(pairs)
        return self._loaders[key]

    def split(self, prepared: Prepared, name: str) -> Tokens:
        """`tokens_of` a split of the prepared data."""
        key = (prepared.key, name)
        if key not in self._splits:
            self._splits[key] = of_pairs(prepared.pairs(name))
        return self._splits[key]

    def row_steps(self, prepared: Prepared, spec: RunSpec) -> int:
        """Hypotheses times steps of the search over the test set if outputs are as long as the references."""
        search = spec.search
        key = (prepared.key, spec.score.test, search.max_ratio, search.max_extra, search.max_length)
        if key not in self._steps:
            pairs = prepared.pairs(spec.score.test)
            self._steps[key] = sum(len(b) * expected_steps(pairs, b, spec) for b in batches(pairs.src_lengths.tolist()))
        return self._steps[key] * search.beam_size


def expected_steps(pairs: Pairs, indices: list[int], spec: RunSpec) -> int:
    """Expected steps until a batch is done: the average of mean and longest reference, within the limits of the search."""
    search = spec.search
    steps = [min(int(pairs.tgt_lengths[i]) + 1, length_limit(search, int(pairs.src_lengths[i]) + 1)) for i in indices]
    return max(1, round((sum(steps) / len(steps) + max(steps)) / 2))
