"""Parameter counts of rows. Needs no data and allocates no weights: models are constructed on the meta device from shared parts."""

from collections.abc import Iterable

from orchestrator.errors import UserError, raise_all
from orchestrator.specs.schema import RunSpec

_ANY_SIZE = 8
"""Placeholder for an unknown vocabulary size, which does not affect initial values."""


def params(spec: RunSpec, src_vocab: int, tgt_vocab: int) -> int:
    """Returns the number of distinct trainable parameters of the row's model. Raises UserError as `parts.count` does."""
    from orchestrator.sweeps import parts  # deferred: imports torch

    return parts.count(spec.model, src_vocab, tgt_vocab).whole


def declared(spec: RunSpec) -> tuple[int, int] | None:
    """Returns the source and target vocabulary sizes if the spec declares both, else None."""
    vocab = spec.data.vocab
    return None if vocab.src is None or vocab.tgt is None else (vocab.src, vocab.tgt)


def check_initial(specs: Iterable[tuple[str, RunSpec]]) -> None:
    """Raises UserError with one line per parameter without a declared initial value, naming the first row with it. specs: (row, spec)."""
    found: dict[str, str] = {}
    for row, spec in specs:
        try:
            params(spec, *(declared(spec) or (_ANY_SIZE, _ANY_SIZE)))
        except UserError as error:
            found.setdefault(str(error), row)
    raise_all(f"{row}: {line}" for line, row in found.items())
