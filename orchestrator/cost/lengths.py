"""Amount of work in training prepared data: sums of lengths, numbers of updates."""

from dataclasses import dataclass

from orchestrator.cost.work import Tokens
from orchestrator.data.store import Prepared
from orchestrator.specs.schema import RunSpec
from orchestrator.training.batches import UpdateLoader, total_steps
from orchestrator.training.state import Progress


@dataclass(frozen=True)
class Length:
    """Length of a training.

    updates: an upper bound, because patience or a plateau may end it early. tokens: of a mean update.
    """

    updates: int
    tokens: Tokens
    validations: int


class Lengths:
    """Computes lengths of trainings; memoises them per data and batch."""

    def __init__(self) -> None:
        self._loaders: dict[tuple[str, str], UpdateLoader] = {}
        self._splits: dict[tuple[str, str], Tokens] = {}

    def training(self, spec: RunSpec, prepared: Prepared) -> Length:
        """Length of a training with its own batches; those of a restart are ignored."""
        train, key = spec.train, (prepared.key, spec.batch.model_dump_json())
        if (loader := self._loaders.get(key)) is None:
            loader = self._loaders[key] = UpdateLoader(prepared.pairs("train"), spec.batch, 1)
        updates = max(1, total_steps(loader, train, Progress()) if train.max_epochs is not None else train.max_steps or 1)
        epochs, every = loader.epochs_of(updates), train.validate_every
        mean = self.split(prepared, "train").scaled(epochs / max(1, loader.updates_of(0, epochs)))
        return Length(updates, mean, epochs if every == "epoch" else -(-updates // int(every)))

    def split(self, prepared: Prepared, name: str) -> Tokens:
        """The tokens of a split of the prepared data."""
        if (key := (prepared.key, name)) not in self._splits:
            pairs = prepared.pairs(name)
            self._splits[key] = Tokens.of(pairs.src_lengths + 1, pairs.tgt_lengths + 1)
        return self._splits[key]
