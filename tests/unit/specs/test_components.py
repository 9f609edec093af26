"""The signature of a component's class is its schema."""

from __future__ import annotations

import inspect
import json
from typing import Any, Literal

import pytest

from models.registry import REGISTRIES
from orchestrator.specs import components
from orchestrator.specs.components import check_component, schema, slots

EVERY = [(kind, name) for kind, registry in REGISTRIES.items() for name in registry.names()]


class Registry:
    """A registry of one class."""

    def __init__(self, cls: type) -> None:
        self.cls = cls

    def names(self) -> list[str]:
        return ["thing"]

    def get(self, name: str) -> type:
        return {"thing": self.cls}[name]


class Thing:
    """A component with every type of option."""

    def __init__(
        self,
        site: Any,
        *,
        width: int,
        window: int = 0,
        limit: int | None = None,
        gate: Literal["scalar", "vector"] = "scalar",
        rate: float = 0.5,
        on: bool = True,
        kernels: list[int] | None = None,
    ) -> None: ...

    @classmethod
    def check(cls, site: dict[str, Any], **options: Any) -> str | None:
        return f"width {options['width']} is more than d_model {site['d_model']}" if options["width"] > site["d_model"] else None


@pytest.fixture
def thing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(components, "REGISTRIES", {"connection": Registry(Thing)})
    schema.cache_clear()
    monkeypatch.setattr(schema, "cache_clear", schema.cache_clear)


SITE = {"side": "encoder", "num_layers": 2, "d_model": 16, "num_heads": 2}


@pytest.mark.usefixtures("thing")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"width": 8}, ""),
        ({"width": 8, "window": 0, "limit": None, "rate": 1, "kernels": [3, 5]}, ""),
        ({}, "missing"),
        ({"width": 8, "windw": 3}, "did you mean window"),
        ({"width": "8"}, "found '8'; expected a whole number"),
        ({"width": 8.0}, "expected a whole number"),
        ({"width": True}, "expected a whole number"),
        ({"width": -1}, "expected a number >= 0"),
        ({"width": 10**7}, "expected a number <= 1000000"),
        ({"width": 8, "limit": -1}, "expected a number >= 0"),
        ({"width": 8, "gate": "matrix"}, "found 'matrix'; expected one of scalar, vector"),
        ({"width": 8, "rate": float("nan")}, "expected a"),
        ({"width": 8, "rate": "fast"}, "expected a number"),
        ({"width": 8, "on": 1}, "expected true or false"),
        ({"width": 8, "kernels": [3, "5"]}, "expected a whole number"),
        ({"width": 17}, "more than d_model 16"),
        ({"width": 8, "site": 1}, "unknown key"),
    ],
)
def test_options(options: dict[str, Any], message: str) -> None:
    schema.cache_clear()
    filled, problems = check_component("connection", {"kind": "thing", **options}, SITE, ("a",))
    schema.cache_clear()
    if not message:
        assert problems == [] and filled is not None and filled["gate"] == "scalar" and filled["rate"] in (0.5, 1.0)
    else:
        assert len(problems) == 1 and message in problems[0].message and problems[0].path[0] == "a", problems


@pytest.mark.parametrize("value", [3, None, "residual", [], {}, {"kind": None}, {"kind": 3}, {"kind": "nope"}])
def test_what_is_no_component(value: Any) -> None:
    filled, problems = check_component("connection", value, None, ("x",))
    assert filled is None and len(problems) == 1


@pytest.mark.parametrize(("registry", "name"), EVERY)
def test_every_registered_class_has_a_strict_schema(registry: str, name: str) -> None:
    cls = REGISTRIES[registry].get(name)
    assert inspect.getdoc(cls), "the docstring is the equation"
    keyword_only = {p.name for p in inspect.signature(cls).parameters.values() if p.kind is p.KEYWORD_ONLY}
    assert set(schema(registry, name).model_fields) == keyword_only | {"kind"}
    required = {option: 1 for option, info in schema(registry, name).model_fields.items() if info.is_required()}
    filled, problems = check_component(registry, {"kind": name, **required}, None)
    assert problems == [] and filled is not None
    assert check_component(registry, {**filled, "no_such_option": 1}, None)[1]


@pytest.mark.parametrize(("registry", "name"), EVERY)
def test_options_are_plain_values(registry: str, name: str) -> None:
    """A component inside an option would have no version in keys (`keys.component_versions`): it needs a slot of its own."""
    schemas = schema(registry, name).model_json_schema()
    assert "$defs" not in schemas and '"object"' not in json.dumps(schemas["properties"])
    assert all({"type", "anyOf", "const", "enum"} & option.keys() for option in schemas["properties"].values()), "Any takes mappings too"


def test_every_registry_has_its_place_in_a_spec() -> None:
    assert {*components.SLOTS.values(), "regularizer"} == set(REGISTRIES)


def test_slots_of_a_model() -> None:
    model = {
        "encoder": {"connection": {"kind": "dense"}},
        "bridge": 3,
        "context": None,
        "regularizers": [{"kind": "diversity"}, 4],
        "decoder": 5,
    }
    assert [(path, value) for path, _, value in slots(model)] == [
        (("encoder", "connection"), {"kind": "dense"}),
        (("bridge",), 3),
        (("regularizers", 0), {"kind": "diversity"}),
        (("regularizers", 1), 4),
    ]
