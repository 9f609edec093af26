"""Parameters of a row without its data and without memory: the model is built on the meta device, of parts that were counted before.

The Transformer's own constructor runs; what it asks the registries for, and its stacks, are counted once for each distinct set of
options and of what their constructors looked at (their side, a depth, a width): see `part_counts`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from orchestrator.keys import model_text
from orchestrator.spec import ModelSpec, RunSpec

if TYPE_CHECKING:
    from orchestrator.part_counts import Counts

_counts: dict[tuple[str, int, int], Counts] = {}
_extra: dict[tuple[Any, ...], int] = {}


def params(spec: RunSpec, src_vocab: int, tgt_vocab: int) -> int:
    """Distinct trainable numbers; counted once for each distinct model and vocabulary."""
    model = spec.model
    return counts(model, src_vocab, tgt_vocab).whole + sum(_of_regularizer(model, component) for component in model.regularizers)


def _of_regularizer(model: ModelSpec, component: dict[str, Any]) -> int:
    """Of a regularizer by itself: its weight is what searches vary, and no model is another for it."""
    key = (component["kind"], model.d_model, model.encoder.num_layers, model.decoder.num_layers)
    if key not in _extra:
        from models.config import ModelConfig, options
        from models.registry import REGULARIZERS
        from models.site import Site

        config = ModelConfig.of(model.model_dump())
        made = REGULARIZERS.get(component["kind"])(Site("encoder", 0, config.encoder.num_layers, config), **options(component))
        _extra[key] = sum(p.numel() for p in made.parameters() if p.requires_grad)
    return _extra[key]


def counts(model: ModelSpec, src_vocab: int, tgt_vocab: int) -> Counts:
    """Of the model without its regularizers, its stacks apart."""
    key = (model_text(model, without="regularizers"), src_vocab, tgt_vocab)
    if key not in _counts:
        from orchestrator.part_counts import count

        _counts[key] = count(model.model_dump(exclude={"regularizers"}), src_vocab, tgt_vocab)
    return _counts[key]


def declared(spec: RunSpec) -> tuple[int, int] | None:
    """The vocabulary sizes that the spec declares, if it declares both."""
    vocab = spec.data.vocab
    return None if vocab.src is None or vocab.tgt is None else (vocab.src, vocab.tgt)
