"""Rewrites pydantic's errors in the product's format: `found X; expected Y; did you mean Z?`."""

import functools
import operator
import types
import typing
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError

from orchestrator.errors import raise_all
from orchestrator.files.listed import mapped
from orchestrator.specs.positions import Document, KeyPath, describe, dotted, nearest

Model = typing.TypeVar("Model", bound=BaseModel)

_EXPECTED = {kind: words for words, kinds in mapped(__file__, "expected.txt").items() for kind in kinds.split()}
_BRANCHES = ("int", "constrained-int", "float", "constrained-float", "bool", "str", "none", "list", "dict", "[key]")


@dataclass(frozen=True)
class Problem:
    """A problem at a key path."""

    path: KeyPath
    message: str


def problems_of(error: ValidationError, model: type[BaseModel], at: KeyPath = (), siblings: tuple[str, ...] = ()) -> list[Problem]:
    """Converts a validation error to problems with paths below `at`. siblings: keys that are allowed beside those of `model`.

    If several branches of a union failed, the first one gives the message, extended by the names or the list that others allow.
    """
    found: dict[KeyPath, str] = {}
    for item in error.errors(include_url=False):
        unknown = item["type"] == "extra_forbidden"  # an unknown key may have the name of a union branch
        path = (*_clean(item["loc"][:-1], model), item["loc"][-1]) if unknown else _clean(item["loc"], model)
        if path in found and item["type"] in ("literal_error", "list_type"):
            found[path] += f" or {_names_of(item) if item['type'] == 'literal_error' else 'a list'}"
        if item["loc"] and isinstance(item["loc"][-1], int):
            found.pop(path[:-1], None)  # the value is a list: report its item instead
        found.setdefault(path, _message(item, path, model, at, siblings))
    return [Problem((*at, *path), message) for path, message in found.items()]


def validated(document: Document, path: KeyPath, model: type[Model], beside: tuple[str, ...] = ()) -> Model | None:
    """Validates the mapping at `path` without its keys in `beside`. Returns None if it is invalid, with problems of the document."""
    value = functools.reduce(operator.getitem, path, document.data) or {}
    try:
        return model.model_validate({name: item for name, item in value.items() if name not in beside})
    except ValidationError as error:
        document.problems += [document.line(problem.path, problem.message) for problem in problems_of(error, model, path, beside)]
        return None


def valid(document: Document, model: type[Model]) -> Model:
    """Validates a document. Raises UserError with one line per fault: file, line, key."""
    found = validated(document, (), model)
    raise_all(document.problems)
    assert found is not None
    return found


def _names_of(item: Any) -> str:
    return str(item["ctx"]["expected"]).replace("'", "")


def _message(item: Any, path: KeyPath, model: type[BaseModel], at: KeyPath, siblings: tuple[str, ...]) -> str:
    kind, value, ctx = item["type"], item.get("input"), item.get("ctx", {})
    if kind == "extra_forbidden":
        known = [*_names(model, path[:-1]), *(siblings if len(path) == 1 else ())]
        return f"unknown key; {nearest(str(path[-1]), known, key_below(model, path, at))}"
    if kind == "missing":
        return "missing; expected a value"
    if kind == "value_error":
        return str(ctx.get("error", item["msg"]))
    if kind == "literal_error":
        names = _names_of(item).replace(" or ", ", ").split(", ")
        return f"found {describe(value)}; {nearest(value if isinstance(value, str) else '', names)}"
    if kind in _EXPECTED:
        found = f"{ctx['actual_length']} items" if "actual_length" in ctx else describe(value)
        return f"found {found}; expected {_EXPECTED[kind].format(**ctx)}"
    return f"found {describe(value)}; {str(item['msg'])[:1].lower()}{str(item['msg'])[1:]}"


def _clean(loc: tuple[str | int, ...], model: type[BaseModel]) -> KeyPath:
    """Removes the names of union branches that pydantic inserts into locations."""
    kept: list[str | int] = []
    for part in loc:
        known = _names(model, tuple(kept))
        is_branch = isinstance(part, str) and part not in known and (part in _BRANCHES or part.startswith(("literal[", "list[")))
        if not is_branch:
            kept.append(part)
    return tuple(kept)


def _names(model: type[BaseModel], path: KeyPath) -> list[str]:
    """Returns the field names of the model at `path` below `model`."""
    current: Any = model
    for part in path:
        fields = getattr(current, "model_fields", None)
        if fields is None or part not in fields:
            current = _unwrap((typing.get_args(current) or [None])[-1])  # an item of a list or mapping
        else:
            current = _unwrap(fields[part].annotation)
    return list(getattr(_unwrap(current), "model_fields", {}))


def key_below(model: type[BaseModel], path: KeyPath, at: KeyPath = ()) -> str | None:
    """Returns the shortest key below the mapping of `path` that has its last name, at most three levels deeper."""
    level = [path[:-1]]
    for _ in range(4):
        level = [(*mapping, name) for mapping in level for name in _names(model, mapping)]
        if found := next((key for key in level if key[-1] == path[-1]), None):
            return dotted((*at, *found))
    return None


def _unwrap(annotation: Any) -> Any:
    """Returns `X` for `X | None` and `Annotated[X, ...]`, and the only model of a union."""
    if typing.get_origin(annotation) is typing.Annotated:
        return _unwrap(typing.get_args(annotation)[0])
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        rest = [_unwrap(a) for a in typing.get_args(annotation) if a is not type(None)]
        models = [a for a in rest if isinstance(a, type) and issubclass(a, BaseModel)]
        return rest[0] if len(rest) == 1 else models[0] if len(models) == 1 else annotation
    return annotation
