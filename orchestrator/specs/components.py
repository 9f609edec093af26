"""Strict schemas of components, derived from the constructors of the registered classes: the signature is the schema.

A component is `{kind: NAME, **options}`. Options are the keyword-only arguments of the class; types come from its hints, defaults from
its signature. Whole numbers are bounded below by 1 (by 0 where the default is 0 or null) and above by MAX_INT.
"""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from models.registry import REGISTRIES
from orchestrator.specs.compatibility import check_compatibility
from orchestrator.specs.messages import Problem, problems_of
from orchestrator.specs.positions import KeyPath, describe, nearest

MAX_INT = 1_000_000
SIDE_SLOTS = ("layer", "connection", "aggregation", "self_attention")
SLOTS: dict[KeyPath, str] = (
    {("encoder", slot): slot for slot in SIDE_SLOTS}
    | {("decoder", slot): slot for slot in (*SIDE_SLOTS, "cross_attention")}
    | {("bridge",): "bridge", ("extra_encoder",): "extra_encoder", ("context",): "context"}
)
"""Key path below `model` -> kind of registry. `regularizers` is a list of components and not in here."""


def slots(model: dict[str, Any]) -> Iterator[tuple[KeyPath, str, Any]]:
    """(path below `model`, registry kind, component) of every component written in a model section; malformed ones too."""
    for path, registry in SLOTS.items():
        value: Any = model
        for part in path:
            value = value.get(part) if isinstance(value, dict) else None
        if value is not None:
            yield path, registry, value
    listed = model.get("regularizers")
    for i, value in enumerate(listed if isinstance(listed, list) else []):
        yield ("regularizers", i), "regularizer", value


@functools.cache
def schema(registry: str, kind: str) -> type[BaseModel]:
    """The strict model of one component's options, `kind` included. KeyError if there is no such component."""
    cls = REGISTRIES[registry].get(kind)
    hints = typing.get_type_hints(cls.__init__)
    fields: dict[str, Any] = {"kind": (typing.Literal[kind], kind)}
    for parameter in inspect.signature(cls).parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY:
            default = ... if parameter.default is parameter.empty else parameter.default
            fields[parameter.name] = (_bounded(hints.get(parameter.name, Any), default), default)
    config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)
    return create_model(f"{registry}_{kind}", __config__=config, __doc__=inspect.getdoc(cls), **fields)


def check_component(
    registry: str, value: Any, site: dict[str, Any] | None, at: KeyPath = ()
) -> tuple[dict[str, Any] | None, list[Problem]]:
    """The component with its defaults filled in, or its problems.

    `site`: side, num_layers, d_model, num_heads, for the class's own `check`; None skips that.
    """
    if not isinstance(value, dict):
        return None, [Problem(at, f"found {describe(value)}; expected a mapping such as {{kind: {_example(registry)}}}")]
    if "kind" not in value:
        return None, [Problem(at, f"kind is missing; {nearest('', REGISTRIES[registry].names())}")]
    kind, names = value["kind"], REGISTRIES[registry].names()
    if not isinstance(kind, str) or kind not in names:
        return None, [Problem((*at, "kind"), f"found {describe(kind)}; {nearest(kind if isinstance(kind, str) else '', names)}")]
    model = schema(registry, kind)
    try:
        options = model.model_validate(value).model_dump()
    except ValidationError as error:
        return None, problems_of(error, model, at)
    message = None if site is None else refusal(registry, options, site)
    return options, [Problem(at, message)] if message else []


def refusal(registry: str, component: dict[str, Any], site: dict[str, Any]) -> str | None:
    """Why the component's own `check` refuses this site; None where it accepts it. Options are written out and of the right types."""
    own = getattr(REGISTRIES[registry].get(component["kind"]), "check", None)
    return None if own is None else own(site, **{k: v for k, v in component.items() if k != "kind"})


def check_components(model: dict[str, Any], *, cross_checks: bool = True) -> tuple[dict[KeyPath, dict[str, Any]], list[Problem]]:
    """Every component of a model section: (path -> component with defaults filled in), and the problems, paths below `model`.

    cross_checks: False checks each component by itself, without its site and the other components.
    """
    filled: dict[KeyPath, dict[str, Any]] = {}
    problems: list[Problem] = []
    for path, registry, value in slots(model):
        options, found = check_component(registry, value, site_info(model, path) if cross_checks else None, path)
        problems += found
        if options is not None:
            filled[path] = options
    return filled, problems or (check_compatibility(filled) if cross_checks else [])


def site_info(model: dict[str, Any], path: KeyPath) -> dict[str, Any] | None:
    """The site that a class's `check` receives; None while its numbers are invalid."""
    depth = {}
    for side in ("encoder", "decoder"):
        section = model.get(side)
        depth[side] = section.get("num_layers") if isinstance(section, dict) else None
    side = str(path[0]) if path[0] in depth else "decoder" if path[0] == "bridge" else "both" if path[0] == "regularizers" else "encoder"
    site = {"side": side, "num_layers": depth["encoder" if side == "both" else side]}
    site |= {f"{name}_layers": number for name, number in depth.items()}
    site |= {name: model.get(name) for name in ("d_model", "num_heads")}
    sound = all(isinstance(v, int) and not isinstance(v, bool) and v > 0 for name, v in site.items() if name != "side")
    return site | {"norm": model.get("norm")} if sound else None


def _bounded(hint: Any, default: Any) -> Any:
    """Bounds for whole numbers, inside unions too; those in a list are the class's own to check."""
    if hint is int:
        low = 1 if isinstance(default, int) and default >= 1 else 0 if default in (0, None, ...) else -MAX_INT
        return Annotated[int, Field(ge=low, le=MAX_INT)]
    arguments = () if typing.get_origin(hint) is list else typing.get_args(hint)
    if int in arguments:
        return typing.Union[tuple(_bounded(a, default) for a in arguments)]  # noqa: UP007 built from a tuple
    return hint


def _example(registry: str) -> str:
    names = REGISTRIES[registry].names()
    return names[0] if names else "NAME"
