"""The signature of a component's class is its schema."""

import inspect
import json

import pytest

from models.registry import REGISTRIES
from orchestrator.specs import components
from orchestrator.specs.components import check_component, schema

EVERY = [(kind, name) for kind, registry in REGISTRIES.items() for name in registry.names()]


@pytest.mark.parametrize("value", [3, None, "residual", [], {}, {"kind": None}, {"kind": 3}, {"kind": "nope"}])
def test_what_is_no_component(value) -> None:
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


def test_a_check_of_its_own_leaves_the_rules_of_all_components_on(monkeypatch) -> None:
    monkeypatch.setattr(REGISTRIES["connection"].get("hierarchical"), "min_layers", 4)
    (problem,) = check_component("connection", {"kind": "hierarchical"}, {"num_layers": 2, "norm": "pre"})[1]
    assert "needs at least 4 layers" in problem.message
