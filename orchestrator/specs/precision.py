"""Components that need fp32: decoding them in lower precision is an error, training them in bf16 gives a warning."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from typing import Any

from models.registry import REGISTRIES
from orchestrator.specs.components import SLOTS, side_of, site_info
from orchestrator.specs.messages import Problem
from orchestrator.specs.positions import KeyPath
from orchestrator.specs.schema import ModelSpec, RunSpec


def needs_fp32(model: ModelSpec) -> str | None:
    """Returns the first component that needs fp32 at its site and why, or None if the model may run in any precision."""
    for path, cls, component in _with_fp32_rule(model):
        options = {name: value for name, value in component.items() if name != "kind"}
        reason = cls.needs_fp32(site_info(model.model_dump(), side_of(path)), **options)
        if reason is not None:
            return f"{'.'.join(map(str, path))} {component['kind']}: {reason}"
    return None


def _with_fp32_rule(model: ModelSpec) -> Iterator[tuple[KeyPath, Any, dict[str, Any]]]:
    """Yields (path below `model`, class, component) for the components whose class defines `needs_fp32`."""
    for path, registry in SLOTS.items():
        component: Any = model
        for part in path:
            component = getattr(component, str(part))
        if component is not None and (cls := _with_rule(registry, component["kind"])) is not None:
            yield path, cls, component


@functools.cache
def _with_rule(registry: str, kind: str) -> Any:
    from models.component import Component

    cls = REGISTRIES[registry].get(kind)
    return cls if any("needs_fp32" in vars(base) for base in cls.__mro__ if base is not Component) else None


def refused(spec: RunSpec) -> list[Problem]:
    """Returns the problem with the precision of decoding, if any: translations and scores would differ from fp32."""
    found = spec.decode.precision
    reason = None if found == "fp32" else needs_fp32(spec.model)
    return [] if reason is None else [Problem(("decode", "precision"), f"found {found}; expected fp32: {reason}")]


def warned(specs: Iterable[tuple[str, RunSpec]]) -> list[str]:
    """Returns one warning per reason against bf16 training, with the rows concerned. specs: pairs of row and spec."""
    rows: dict[str, dict[str, None]] = {}
    for row, spec in specs:
        reason = needs_fp32(spec.model) if spec.train.precision == "bf16" else None
        if reason is not None:
            rows.setdefault(reason, {})[row] = None
    return [f"warning: {_few(list(names))}: train.precision bf16: {reason}" for reason, names in rows.items()]


def _few(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more rows" if len(names) > 3 else "")
