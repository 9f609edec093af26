"""Whether layers whose states are not d_model wide fit what stands around them."""

from __future__ import annotations

from typing import Any

from orchestrator.specs.messages import Problem
from orchestrator.specs.positions import KeyPath

Filled = dict[KeyPath, dict[str, Any]]


def check_widths(filled: Filled, registries: dict[str, Any]) -> list[Problem]:
    """The first thing that does not fit. filled: path below `model` -> component with its defaults."""
    return (
        _check_side("encoder", filled, registries)
        or _check_side("decoder", filled, registries)
        or _check_encoder(filled, registries)
        or _check_attention(filled, registries)
    )


def _check_side(side: str, filled: Filled, registries: dict[str, Any]) -> list[Problem]:
    """A layer and its connection, and what reads the states of all layers."""
    layer, made = _find((side, "layer"), "transformer", filled, registries)
    connection, joins = _find((side, "connection"), "residual", filled, registries)
    kind, name = layer["kind"], connection["kind"]
    if made.any_width != joins.any_width:
        expected = _names("connection", "any_width", made.any_width, registries)
        return [Problem((side, "connection", "kind"), f"found {name} with layer {kind}; expected {expected}")]
    if not made.any_width:
        return []
    at: KeyPath = (side, "layer", "residual")
    if joins.passes_attended and layer["residual"]:
        return [Problem(at, f"found true; expected false: connection {name} hands on all layers itself")]
    if side == "decoder" and not joins.passes_attended and not layer["residual"]:
        return [Problem(at, f"found false; expected true: connection {name} hands on nothing of what layers attended to")]
    for slot, plain in (("aggregation", "top"), ("self_attention", "single")):
        found = filled.get((side, slot), {"kind": plain})["kind"]
        if found != plain:
            return [Problem((side, slot, "kind"), f"found {found} with layer {kind}; expected {plain}")]
    widths = layer["widths"] if isinstance(layer["widths"], list) else [layer["widths"]]
    for path, component in filled.items():
        if component["kind"] == "diversity" and component["sides"] in ("both", side) and len(set(widths)) > 1:
            return [Problem((*path, "kind"), f"found diversity over {side} layers of unequal widths; expected one width")]
    return []


def _check_encoder(filled: Filled, registries: dict[str, Any]) -> list[Problem]:
    """Who reads the encoder's states."""
    layer, made = _find(("encoder", "layer"), "transformer", filled, registries)
    bridge, reader = _find(("bridge",), "top", filled, registries)
    where = f"with layer {layer['kind']} in the encoder"
    if made.any_width and not reader.any_width:
        expected = _names("bridge", "any_width", True, registries)
        return [Problem(("bridge", "kind"), f"found {bridge['kind']} {where}; expected {expected}")]
    if made.any_width and ("context",) in filled:
        return [Problem(("context", "kind"), f"found {filled[('context',)]['kind']} {where}; expected no context")]
    return []


def _check_attention(filled: Filled, registries: dict[str, Any]) -> list[Problem]:
    """A decoder's layer, cross-attention and bridge are of one family."""
    layer, made = _find(("decoder", "layer"), "transformer", filled, registries)
    bridge, reader = _find(("bridge",), "top", filled, registries)
    cross, attention = _find(("decoder", "cross_attention"), "single", filled, registries)
    if attention.bare != made.adds_attended:
        expected = _names("cross_attention", "bare", made.adds_attended, registries)
        return [Problem(("decoder", "cross_attention", "kind"), f"found {cross['kind']} with layer {layer['kind']}; expected {expected}")]
    if attention.bare != reader.mapped:
        expected = _names("bridge", "mapped", attention.bare, registries)
        return [Problem(("bridge", "kind"), f"found {bridge['kind']} with cross_attention {cross['kind']}; expected {expected}")]
    return []


def _find(path: KeyPath, default: str, filled: Filled, registries: dict[str, Any]) -> tuple[dict[str, Any], Any]:
    component = filled.get(path, {"kind": default})
    return component, registries[str(path[-1])].get(component["kind"])


def _names(registry: str, flag: str, value: bool, registries: dict[str, Any]) -> str:
    known = registries[registry]
    return " or ".join(name for name in known.names() if getattr(known.get(name), flag) == value)
