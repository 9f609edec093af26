"""Models widened or narrowed to a number of parameters."""

import bisect
from collections.abc import Callable, Iterator
from typing import Any

from models.config import MAX_WIDTH
from orchestrator.errors import UserError
from orchestrator.specs.schema import ModelSpec, RunSpec
from orchestrator.sweeps import parts

TOLERANCE = 0.005
"""Largest relative difference between a control and what it matches."""
Width = Callable[[ModelSpec, int], ModelSpec]
"""Sets one width of a model."""
NEAR = 8
"""Steps of d_model on either side of the nearest that are tried."""


def widened(spec: RunSpec, sizes: tuple[int, int], target: int) -> tuple[ModelSpec, str]:
    """Returns the model of `spec` with `target` parameters within TOLERANCE, and its widths in words.

    First only `d_ff` changes, or `widths` for layers without a feed-forward network, such as convolutions. If this misses the target,
    d_model changes in steps of twice `num_heads`, nearest values first. The inner width changes in proportion and is then fitted alone.

    sizes: source and target vocabulary sizes.

    UserError: no width can change, or no model is within TOLERANCE.
    """
    count = lambda model: parts.params(spec.model_copy(update={"model": model}), *sizes)  # noqa: E731
    model, step = spec.model, 2 * spec.model.num_heads
    changes = lambda width: (start := _start(model, width)) > 0 and count(width(model, start + 1)) != count(model)  # noqa: E731
    inner = next(filter(changes, (_d_ff, _layer_widths)), None)
    if inner is None:
        raise UserError("nothing of it can be widened: its layers have no feed-forward network and no widths")

    def bases() -> Iterator[ModelSpec]:
        yield model
        outer = nearest(lambda n: count(_d_model(model, n)), model.d_model, step, target)
        for steps in sorted(range(-NEAR, NEAR + 1), key=abs):
            if outer + steps * step > 0:
                yield _d_model(model, outer + steps * step)

    best: dict[int, ModelSpec] = {}
    for base in bases():
        made = inner(base, nearest(lambda n, base=base: count(inner(base, n)), _start(base, inner), 1, target))  # type: ignore[misc]
        best.setdefault(abs(count(made) - target), made)
        if min(best) <= TOLERANCE * target:
            words = f"{'d_ff' if inner is _d_ff else 'widths'} {_start(made, inner)}"
            return made, words if made.d_model == model.d_model else f"d_model {made.d_model}, {words}"
    raise UserError(f"no width has {target:,} parameters within {TOLERANCE:.1%}; the nearest has {count(best[min(best)]):,}")


def nearest(count: Callable[[int], int], start: int, step: int, target: int) -> int:
    """Returns the width start + k * step, from 1 to MAX_WIDTH, whose count is nearest to `target`. `count` increases with the width."""
    widths = range((start - 1) % step + 1, MAX_WIDTH + 1, step)
    above = bisect.bisect_left(widths, target, key=count)
    return min(widths[max(0, above - 1) : above + 1], key=lambda width: abs(count(width) - target))


def _start(model: ModelSpec, width: Width) -> int:
    return model.d_ff if width is _d_ff else max((w for side in ("encoder", "decoder") for w in _widths(model, side)), default=0)


def _d_ff(model: ModelSpec, to: int) -> ModelSpec:
    return model.model_copy(update={"d_ff": to})


def _layer_widths(model: ModelSpec, to: int) -> ModelSpec:
    """Sets the largest width of any layer to `to` and scales the other widths in proportion."""
    factor = to / _start(model, _layer_widths)
    changed: dict[str, Any] = {}
    for side in ("encoder", "decoder"):
        section = getattr(model, side)
        if widths := _widths(model, side):
            scaled = [max(1, round(width * factor)) for width in widths]
            layer = section.layer | {"widths": scaled if isinstance(section.layer["widths"], list) else scaled[0]}
            changed[side] = section.model_copy(update={"layer": layer})
    return model.model_copy(update=changed)


def _d_model(model: ModelSpec, to: int) -> ModelSpec:
    """Sets d_model to `to` and scales d_ff and the widths of layers in proportion."""
    factor = to / model.d_model
    wider = model.model_copy(update={"d_model": to, "d_ff": max(1, round(model.d_ff * factor))})
    start = _start(model, _layer_widths)
    return wider if not start else _layer_widths(wider, max(1, round(start * factor)))


def _widths(model: ModelSpec, side: str) -> list[int]:
    widths = getattr(model, side).layer.get("widths", [])
    return list(widths) if isinstance(widths, list) else [widths]
