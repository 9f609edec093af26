"""Strict schemas of components, derived from the constructor signatures of the registered classes.

A component is `{kind: NAME, **options}`. Options are the keyword-only arguments of the class, with types from its hints and defaults
from its signature. The lower bound of an integer is 1 if its default is positive, 0 if its default is 0, null or absent, and -MAX_INT if
its default is negative; the upper bound is MAX_INT.
"""

import functools
import inspect
import types
import typing
from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from models.registry import REGISTRIES
from orchestrator.errors import UserError
from orchestrator.specs.compatibility import check_compatibility
from orchestrator.specs.messages import Problem, problems_of
from orchestrator.specs.positions import KeyPath, Located, describe, nearest

MAX_INT = 1_000_000
SIDE_SLOTS = ("layer", "connection", "aggregation", "residual", "self_attention")
WHOLE_SLOTS = ("bridge", "extra_encoder", "context", "head")
"""Slots of the model as a whole. All except the bridge may be absent."""
SLOTS: dict[KeyPath, str] = (
    {("encoder", slot): slot for slot in SIDE_SLOTS}
    | {("decoder", slot): slot for slot in (*SIDE_SLOTS, "cross_attention")}
    | {(slot,): slot for slot in WHOLE_SLOTS}
)
"""Key path below `model` -> registry. `regularizers` is a list of components and therefore absent."""
REGULARIZERS = ("model", "regularizers")


def slots(model: Any) -> Iterator[tuple[KeyPath, str, Any]]:
    """Yields (path below `model`, registry, component) for every component in a model section, malformed ones included."""
    for path, registry in SLOTS.items():
        value: Any = model
        for part in path:
            value = value.get(part) if isinstance(value, dict) else None
        if value is not None:
            yield path, registry, value
    listed = model.get("regularizers") if isinstance(model, dict) else None
    for i, value in enumerate(listed if isinstance(listed, list) else []):
        yield ("regularizers", i), "regularizer", value


@functools.cache
def schema(registry: str, kind: str) -> type[BaseModel]:
    """Returns the strict pydantic model of a component's options, including `kind`. Raises KeyError for an unknown component."""
    cls = REGISTRIES[registry].get(kind)
    hints = typing.get_type_hints(cls.__init__, include_extras=True)
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
    """Returns the component with its defaults filled in, and its problems.

    `site` (see `site_info`) is passed to the class's `refusal`; None skips it.
    """
    known = REGISTRIES[registry]
    if not isinstance(value, dict):
        return None, [Problem(at, f"found {describe(value)}; expected a mapping such as {{kind: {known.names()[0]}}}")]
    if "kind" not in value:
        return None, [Problem(at, f"kind is missing; {nearest('', known.names())}")]
    kind = value["kind"]
    try:
        model = schema(registry, kind)
    except (KeyError, TypeError):  # TypeError: a list or a mapping
        return None, [Problem((*at, "kind"), f"found {describe(kind)}; {nearest(kind if isinstance(kind, str) else '', known.names())}")]
    try:
        options = model.model_validate(value).model_dump()
    except ValidationError as error:
        return None, problems_of(error, model, at)
    refusal = None if site is None else known.get(kind).refusal(site, **{name: part for name, part in options.items() if name != "kind"})
    return options, [Problem(at, refusal)] if refusal else []


def check_components(model: dict[str, Any]) -> tuple[dict[str, Any], list[Problem]]:
    """Returns a model section with the components' defaults filled in, and the problems of its components, with paths below `model`."""
    filled: dict[KeyPath, dict[str, Any]] = {}
    problems: list[Problem] = []
    sites = {side: site_info(model, side) for side in ("encoder", "decoder", "both")}
    for path, registry, value in slots(model):
        options, own = check_component(registry, value, sites[side_of(path)], path)
        problems += own
        if options is not None:
            filled[path] = options
    problems = problems or check_compatibility(filled)
    made: Any = {name: part.copy() if isinstance(part, (dict, list)) else part for name, part in model.items()}
    for path, options in filled.items():
        parent = functools.reduce(lambda part, name: part[name], path[:-1], made)
        parent[path[-1]] = options
    return made, problems


def placed(tree: Any, path: KeyPath, value: Any) -> dict[str, Any]:
    """Returns nested mappings with `value` at `path`."""
    first, rest = path[0], path[1:]
    below = tree if isinstance(tree, dict) else {}
    return {**below, first: placed(below.get(first), rest, value) if rest else value}


def by_kind(over: Located, base: dict[str, Any]) -> Located:
    """Replaces `model.regularizers.KIND.OPTION` by the list of `base` with the option in its item of that kind, appended if absent."""
    written = [path for path in over.positions if path[:2] == REGULARIZERS and len(path) > 2]
    if not written:
        return over
    listed, given = base["model"].get("regularizers"), over.data["model"]["regularizers"]
    known = listed if isinstance(listed, list) else []
    items: dict[str, Any] = {str(item.get("kind") if isinstance(item, dict) else item): item for item in known}
    if len(items) < len(known):
        first = over.positions[written[0]]
        raise UserError(first.line("the row has two regularizers of one kind; expected the whole list, --set model.regularizers=[..]"))
    for kind in dict.fromkeys(str(path[2]) for path in written):
        options = {} if given[kind] is None else given[kind]
        items[kind] = {**items.get(kind, {"kind": kind}), **options} if isinstance(options, dict) else options
    places: dict[Any, KeyPath] = {kind: (*REGULARIZERS, i) for i, kind in enumerate(items)}
    positions = {(*places[path[2]], *path[3:]) if path[2:] and path[:2] == REGULARIZERS else path: m for path, m in over.positions.items()}
    return Located(placed(over.data, REGULARIZERS, list(items.values())), over.home, positions)


def side_of(path: KeyPath) -> str:
    of = {"decoder": "decoder", "bridge": "decoder", "head": "decoder", "regularizers": "both"}
    return of.get(str(path[0]), "encoder")


def site_info(model: dict[str, Any], side: str) -> dict[str, Any] | None:
    """Returns the site on a side that is passed to a class's `check`, or None if its numbers are invalid."""
    sections = {name: model.get(name) for name in ("encoder", "decoder")}
    depth = {name: section.get("num_layers") if isinstance(section, dict) else None for name, section in sections.items()}
    numbers = {"num_layers": depth["encoder" if side == "both" else side]}
    numbers |= {f"{name}_layers": number for name, number in depth.items()} | {name: model.get(name) for name in ("d_model", "num_heads")}
    sound = all(isinstance(v, int) and not isinstance(v, bool) and 0 < v <= MAX_INT for v in numbers.values())
    return {"side": side, **numbers, "norm": model.get("norm")} if sound else None


def _bounded(hint: Any, default: Any) -> Any:
    """Adds bounds to integer hints, also inside unions, and keeps the bounds of `Annotated`. The class's `check` bounds lists."""
    if typing.get_origin(hint) is Annotated:
        plain, *bounds = typing.get_args(hint)
        return Annotated[_bounded(plain, default), *bounds]
    if hint is int:
        low = 1 if isinstance(default, int) and default >= 1 else 0 if default in (0, None, ...) else -MAX_INT
        return Annotated[int, Field(ge=low, le=MAX_INT)]
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return typing.Union[tuple(_bounded(a, default) for a in typing.get_args(hint))]  # noqa: UP007 built from a tuple
    return hint
