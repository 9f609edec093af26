"""Compatibility checks between the components of one model, each of which is already valid on its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from models.registry import REGISTRIES
from orchestrator.specs.messages import Problem
from orchestrator.specs.positions import KeyPath

Components = dict[KeyPath, dict[str, Any]]
"""Path below `model` -> component with its defaults filled in."""


def check_compatibility(components: Components) -> list[Problem]:
    """Returns the first incompatibility found, or an empty list."""
    return (
        _check_side("encoder", components)
        or _check_side("decoder", components)
        or _check_residual("encoder", components)
        or _check_residual("decoder", components)
        or _check_encoder_states(components)
        or _check_cross_attention(components)
        or _check_contexts(components)
        or _check_memories(components)
        or _check_head(components)
    )


def _check_side(side: str, components: Components) -> list[Problem]:
    """Checks a layer against its connection, and against the components that read the states of all layers."""
    layer, layer_class = _find(components, (side, "layer"), "transformer")
    connection, connection_class = _find(components, (side, "connection"), "residual")
    kind, name = layer["kind"], connection["kind"]
    runs = layer_class.runs(**{key: value for key, value in layer.items() if key != "kind"}) + int(connection_class.corrects)
    attention, attention_class = _find(components, (side, "self_attention"), "single")
    if runs > 1 and (attention_class.reads_stream or attention_class.shares):
        expected = _names("self_attention", lambda a: not a.reads_stream and not a.shares)
        why = f"whose layers run {runs} times" if connection_class.corrects else f"which runs {runs} times"
        where = f"connection {name}" if connection_class.corrects else f"layer {kind}"
        message = f"found {attention['kind']} with {where}, {why}; expected {expected}"
        return [Problem((side, "self_attention", "kind"), message)]
    if layer_class.any_width != connection_class.any_width:
        expected = _names("connection", lambda c: c.any_width == layer_class.any_width)
        return [Problem((side, "connection", "kind"), f"found {name} with layer {kind}; expected {expected}")]
    if not layer_class.any_width:
        return []
    at: KeyPath = (side, "layer", "residual")
    if connection_class.passes_attended and layer["residual"]:
        return [Problem(at, f"found true; expected false: connection {name} hands on all layers itself")]
    if side == "decoder" and not connection_class.passes_attended and not layer["residual"]:
        return [Problem(at, f"found false; expected true: connection {name} hands on nothing of what layers attended to")]
    for slot, default in (("aggregation", "top"), ("self_attention", "single")):
        found = components.get((side, slot), {"kind": default})["kind"]
        if found != default:
            return [Problem((side, slot, "kind"), f"found {found} with layer {kind}; expected {default}")]
    widths = layer["widths"] if isinstance(layer["widths"], list) else [layer["widths"]]
    for path, component in components.items():
        if component["kind"] == "diversity" and component["sides"] in ("both", side) and len(set(widths)) > 1:
            return [Problem((*path, "kind"), f"found diversity over {side} layers of unequal widths; expected one width")]
    return []


def _check_residual(side: str, components: Components) -> list[Problem]:
    """Checks a side's residual against its layer and against the components that would read a stream of several tensors."""
    residual, residual_class = _find(components, (side, "residual"), "plain")
    layer, layer_class = _find(components, (side, "layer"), "transformer")
    name = residual["kind"]
    if name != "plain" and not layer_class.takes_residual:
        return [Problem((side, "residual", "kind"), f"found {name} with layer {layer['kind']}; expected plain")]
    norm = "pre"
    own_order = residual_class.order(norm, **{key: value for key, value in residual.items() if key != "kind"}) != norm
    if not residual_class.streams and not own_order:
        return []
    why = f"with residual {name}, whose " + ("stream is several tensors" if residual_class.streams else "layers have no norms")
    for slot, default in (("connection", "residual"), ("aggregation", "top")):
        found = components.get((side, slot), {"kind": default})["kind"]
        if found != default:
            return [Problem((side, slot, "kind"), f"found {found} {why}; expected {default}")]
    for slot in ("self_attention", "cross_attention") if side == "decoder" else ("self_attention",):
        found, attention = _find(components, (side, slot), "single")
        if attention.reads_stream or (residual_class.takes_views and slot == "self_attention" and not attention.takes_views):
            return [Problem((side, slot, "kind"), f"found {found['kind']} {why}; expected single")]
    bridge, bridge_class = _find(components, ("bridge",), "top")
    if side == "encoder" and bridge_class.reads_layers:
        expected = _names("bridge", lambda b: not b.reads_layers)
        return [Problem(("bridge", "kind"), f"found {bridge['kind']} {why}; expected {expected}")]
    if side == "encoder" and ("context",) in components:
        return [Problem(("context", "kind"), f"found {components[('context',)]['kind']} {why}; expected no context")]
    for path, component in components.items():
        reads = path[0] == "regularizers" and REGISTRIES["regularizer"].get(component["kind"]).reads_layers
        if reads and component.get("sides", side) in ("both", side):
            return [Problem((*path, "kind"), f"found {component['kind']} {why}; expected no such term on the {side}")]
    return []


def _check_encoder_states(components: Components) -> list[Problem]:
    """Checks the components that read encoder states whose width may differ from d_model."""
    layer, layer_class = _find(components, ("encoder", "layer"), "transformer")
    bridge, bridge_class = _find(components, ("bridge",), "top")
    residual, _ = _find(components, ("encoder", "residual"), "plain")
    if bridge_class.reads_residual not in (None, residual["kind"]):
        message = f"found {residual['kind']} with bridge {bridge['kind']}, which reads its stream; expected {bridge_class.reads_residual}"
        return [Problem(("encoder", "residual", "kind"), message)]
    where = f"with layer {layer['kind']} in the encoder"
    if layer_class.any_width and not bridge_class.any_width:
        return [Problem(("bridge", "kind"), f"found {bridge['kind']} {where}; expected {_names('bridge', lambda b: b.any_width)}")]
    if layer_class.any_width and ("context",) in components:
        return [Problem(("context", "kind"), f"found {components[('context',)]['kind']} {where}; expected no context")]
    return []


def _check_cross_attention(components: Components) -> list[Problem]:
    """Checks that the decoder layer, its cross-attention and the bridge belong to one family."""
    layer, layer_class = _find(components, ("decoder", "layer"), "transformer")
    bridge, bridge_class = _find(components, ("bridge",), "top")
    cross, attention = _find(components, ("decoder", "cross_attention"), "single")
    if attention.bare != layer_class.adds_attended:
        expected = _names("cross_attention", lambda c: c.bare == layer_class.adds_attended)
        return [Problem(("decoder", "cross_attention", "kind"), f"found {cross['kind']} with layer {layer['kind']}; expected {expected}")]
    if attention.bare != bridge_class.mapped:
        expected = _names("bridge", lambda b: b.mapped == attention.bare)
        return [Problem(("bridge", "kind"), f"found {bridge['kind']} with cross_attention {cross['kind']}; expected {expected}")]
    return []


def _check_contexts(components: Components) -> list[Problem]:
    """Checks blocks of layers, their contexts and the components that read them."""
    bridge, bridge_class = _find(components, ("bridge",), "top")
    context = components.get(("context",))
    attention, attention_class = _find(components, ("encoder", "self_attention"), "single")
    aggregation, aggregation_class = _find(components, ("encoder", "aggregation"), "top")
    if attention_class.reads_context and context is None:
        message = f"found {attention['kind']} without context; expected model.context.kind multiscale"
        return [Problem(("encoder", "self_attention", "kind"), message)]
    if context is not None and not bridge_class.reads_context and (not attention_class.reads_context or context["blocks"] == 1):
        return [Problem(("context", "kind"), f"found {context['kind']}, which nothing reads; expected bridge.kind multiscale")]
    if context is not None and bridge.get("blocks", context["blocks"]) != context["blocks"]:
        return [Problem(("bridge", "blocks"), f"found {bridge['blocks']}; expected {context['blocks']}, the blocks of the context")]
    cut = "context" if context is not None else "bridge" if "blocks" in bridge else None
    at: KeyPath = ("encoder", "aggregation", "kind")
    if cut is not None and not aggregation_class.top_alone:
        cutting = f"{cut} {components[(cut,)]['kind']} cuts the encoder into blocks"
        return [Problem(at, f"found {aggregation['kind']}; expected top: {cutting}")]
    if not bridge_class.needs_output and aggregation["kind"] != "top":
        return [Problem(at, f"found {aggregation['kind']}, which bridge {bridge['kind']} does not read; expected top")]
    return []


def _check_memories(components: Components) -> list[Problem]:
    """Checks extra encoder, bridge and cross-attention: every memory is read, and none is missing."""
    extra = components.get(("extra_encoder",))
    bridge, bridge_class = _find(components, ("bridge",), "top")
    cross, attention = _find(components, ("decoder", "cross_attention"), "single")
    at: KeyPath = ("bridge", "kind")
    if bridge_class.reads_extra and extra is None:
        expected = _names("extra_encoder", lambda e: e.aligned or not bridge_class.needs_aligned)
        return [Problem(at, f"found {bridge['kind']} without extra_encoder; expected model.extra_encoder.kind {expected}")]
    if extra is not None and not bridge_class.reads_extra:
        unread = f"found {extra['kind']}, whose memory bridge {bridge['kind']} does not read"
        return [Problem(("extra_encoder", "kind"), f"{unread}; expected bridge.kind {_names('bridge', lambda b: b.reads_extra)}")]
    if extra is not None and bridge_class.needs_aligned and not REGISTRIES["extra_encoder"].get(extra["kind"]).aligned:
        expected = _names("extra_encoder", lambda e: e.aligned)
        message = f"found {extra['kind']}; expected {expected}: bridge {bridge['kind']} merges source position by position"
        return [Problem(("extra_encoder", "kind"), message)]
    memories = bridge_class.num_memories + int(bridge_class.reads_context and ("context",) in components)
    if memories > attention.max_memories:
        expected = _names("cross_attention", lambda c: c.max_memories >= memories and c.bare == attention.bare)
        few = f"found {bridge['kind']}, which gives {memories} memories, of which {cross['kind']} reads {attention.max_memories}"
        return [Problem(at, f"{few}; expected model.decoder.cross_attention.kind {expected}")]
    return []


def _check_head(components: Components) -> list[Problem]:
    """Checks the head against what it reads of the decoder's layers and of the encoder."""
    if ("head",) not in components:
        return []
    head, head_class = _find(components, ("head",), "")
    name = head["kind"]
    for side in ("encoder", "decoder"):
        layer, layer_class = _find(components, (side, "layer"), "transformer")
        if layer_class.any_width:
            return [Problem(("head", "kind"), f"found {name} with layer {layer['kind']}; expected no head")]
    if head_class.reads_layers:
        for slot, default in (("aggregation", "top"), ("connection", "residual")):
            found = components.get(("decoder", slot), {"kind": default})["kind"]
            if found != default:
                message = f"found {found} with head {name}, which reads the decoder's layers; expected {default}"
                return [Problem(("decoder", slot, "kind"), message)]
        residual, residual_class = _find(components, ("decoder", "residual"), "plain")
        if residual_class.streams or residual_class.order("pre", **{k: v for k, v in residual.items() if k != "kind"}) != "pre":
            return [Problem(("decoder", "residual", "kind"), f"found {residual['kind']} with head {name}; expected plain")]
    bridge, bridge_class = _find(components, ("bridge",), "top")
    if head_class.reads_words and (bridge_class.by_sentence or not bridge_class.needs_output):
        expected = _names("bridge", lambda b: b.needs_output and not b.by_sentence)
        message = f"found {bridge['kind']} with head {name}, which reads the encoder's output; expected {expected}"
        return [Problem(("bridge", "kind"), message)]
    return []


def _find(components: Components, path: KeyPath, default: str) -> tuple[dict[str, Any], Any]:
    """Returns a component and its class, or the default kind if the section does not name one."""
    component = components.get(path, {"kind": default})
    return component, REGISTRIES[str(path[-1])].get(component["kind"])


def _names(registry: str, accepts: Callable[[Any], bool]) -> str:
    known = REGISTRIES[registry]
    return " or ".join(name for name in known.names() if accepts(known.get(name)))
