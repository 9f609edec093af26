"""Parameters of a row without its data and without memory: the model is built on the meta device, of parts that were counted before.

The Transformer's own constructor runs; what it asks the registries for, and its stacks, are counted once for each distinct set of
options and of what their constructors looked at (their side, a depth, a width): see `part_counts`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from orchestrator.errors import UserError
from orchestrator.ledger.keys import model_text
from orchestrator.specs.schema import ModelSpec, RunSpec

if TYPE_CHECKING:
    from orchestrator.sweeps.parts import Counts

_counts: dict[tuple[str, int, int], Counts] = {}
_extra: dict[tuple[Any, ...], int] = {}
_ANY = 8  # a vocabulary: its size says nothing about initial values


def params(spec: RunSpec, src_vocab: int, tgt_vocab: int) -> int:
    """Distinct trainable numbers; counted once for each distinct model and vocabulary. UserError: see `counts`."""
    model = spec.model
    return counts(model, src_vocab, tgt_vocab).whole + sum(_of_regularizer(model, component) for component in model.regularizers)


def _of_regularizer(model: ModelSpec, component: dict[str, Any]) -> int:
    """Of a regularizer by itself: its weight is what searches vary, and no model is another for it."""
    key = (component["kind"], model.d_model, model.encoder.num_layers, model.decoder.num_layers)
    if key not in _extra:
        from models.config import ModelConfig, options
        from models.initialise import NoInitialValueError, require_all
        from models.registry import REGULARIZERS
        from models.site import Site

        config = ModelConfig.of(model.model_dump())
        made = REGULARIZERS.get(component["kind"])(Site("encoder", 0, config.encoder.num_layers, config), **options(component))
        try:
            require_all(made)
        except NoInitialValueError as error:
            raise UserError(f"regularizer {component['kind']}: {error}") from error
        _extra[key] = sum(p.numel() for p in made.parameters() if p.requires_grad)
    return _extra[key]


def counts(model: ModelSpec, src_vocab: int, tgt_vocab: int) -> Counts:
    """Of the model without its regularizers, its stacks apart. UserError where a parameter has no declared initial value."""
    key = (model_text(model, without="regularizers"), src_vocab, tgt_vocab)
    if key not in _counts:
        from models.initialise import NoInitialValueError
        from orchestrator.sweeps.parts import count

        try:
            _counts[key] = count(model.model_dump(exclude={"regularizers"}), src_vocab, tgt_vocab)
        except NoInitialValueError as error:
            raise UserError(str(error)) from error
    return _counts[key]


def declared(spec: RunSpec) -> tuple[int, int] | None:
    """The vocabulary sizes that the spec declares, if it declares both."""
    vocab = spec.data.vocab
    return None if vocab.src is None or vocab.tgt is None else (vocab.src, vocab.tgt)


def check_initial(specs: Iterable[tuple[str, RunSpec]]) -> None:
    """UserError with a line for each parameter without a declared initial value, naming the first row that has it. specs: (row, spec)."""
    found: dict[str, str] = {}
    for row, spec in specs:
        try:
            params(spec, *(declared(spec) or (_ANY, _ANY)))
        except UserError as error:
            found.setdefault(str(error), row)
    if found:
        raise UserError(*(f"{row}: {line}" for line, row in found.items()))
