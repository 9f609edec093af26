"""Compatibility checks between the components of one model, each of which is already valid on its own."""

import itertools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from models.config import options
from models.registry import REGISTRIES
from orchestrator.specs.messages import Problem
from orchestrator.specs.positions import KeyPath
from orchestrator.specs.schema import DecoderSpec, ModelSpec

Components = dict[KeyPath, dict[str, Any]]
"""Path below `model` -> component with its defaults filled in."""

_DEFAULTS = {slot: part["kind"] for slot, part in DecoderSpec().model_dump(exclude={"num_layers"}).items()}
_DEFAULTS["bridge"] = ModelSpec().bridge["kind"]


class _Part(NamedTuple):
    kind: str
    cls: Any
    options: dict[str, Any]


class _Model:
    """The components of a model by their path."""

    def __init__(self, components: Components) -> None:
        self.components = components

    def __getitem__(self, path: tuple[str, ...]) -> _Part:
        component = self.components.get(path) or {"kind": _DEFAULTS[path[-1]]}
        return _Part(component["kind"], REGISTRIES[path[-1]].get(component["kind"]), options(component))

    def get(self, slot: str) -> _Part | None:
        return self[slot,] if (slot,) in self.components else None

    def wrong(self, path: tuple[str, ...], why: str, expected: str | Callable[[Any], bool]) -> Problem:
        """expected: words, or a predicate on the classes that would fit."""
        words = expected if isinstance(expected, str) else _names(path[-1], expected)
        return Problem((*path, "kind"), f"found {self[path].kind}{why}; expected {words}")

    def only_defaults(self, side: str, slots: tuple[str, ...], why: str) -> Iterator[Problem]:
        for slot in slots:
            if self[side, slot].kind != _DEFAULTS[slot]:
                yield self.wrong((side, slot), why, _DEFAULTS[slot])


def check_compatibility(components: Components) -> list[Problem]:
    """The first problem, if there is one."""
    m = _Model(components)
    of_sides = (rules(m, side) for rules in (_layers, _residuals) for side in ("encoder", "decoder"))
    others = (rules(m) for rules in (_bridge, _contexts, _memories, _head))
    return list(itertools.islice(itertools.chain(*of_sides, *others), 1))


def _layers(m: _Model, side: str) -> Iterator[Problem]:
    """A layer, its connection, and the components that read the states of all layers."""
    layer, connection, attention = (m[side, slot] for slot in ("layer", "connection", "self_attention"))
    runs = layer.cls.runs(**layer.options) + int(connection.cls.corrects)
    if runs > 1 and (attention.cls.reads_stream or attention.cls.shares):
        where = f"connection {connection.kind}, whose layers run" if connection.cls.corrects else f"layer {layer.kind}, which runs"
        yield m.wrong((side, "self_attention"), f" with {where} {runs} times", lambda a: not a.reads_stream and not a.shares)
    top_is_read = m[side, "aggregation"].cls.reads_top and (side == "decoder" or m["bridge",].cls.needs_output)
    top = connection.cls.for_top
    if not top_is_read and top is not None and all(connection.options[name] == value for name, value in top):
        part = "".join(f" with {name} {value}".lower() for name, value in top)
        why = f"{part}, which acts behind the last layer alone, where nothing reads it"
        yield m.wrong((side, "connection"), why, "a connection without such a part")
    why = f" with layer {layer.kind}"
    if layer.cls.merges:
        yield from m.only_defaults(side, ("self_attention", "cross_attention"), why)
        if m["encoder", "layer"].cls.any_width:
            yield m.wrong(("encoder", "layer"), f" with layer {layer.kind} in the decoder", "transformer")
    if layer.cls.any_width != connection.cls.any_width:
        yield m.wrong((side, "connection"), why, lambda c: c.any_width == layer.cls.any_width)
    if not layer.cls.any_width:
        return
    passes, at = connection.cls.passes_attended, (side, "layer", "residual")
    if passes and layer.options["residual"]:
        yield Problem(at, f"found true; expected false: connection {connection.kind} hands on all layers itself")
    if side == "decoder" and not passes and not layer.options["residual"]:
        yield Problem(at, f"found false; expected true: connection {connection.kind} hands on nothing of what layers attended to")
    yield from m.only_defaults(side, ("aggregation", "self_attention"), why)
    widths = layer.options["widths"]
    for path, component in m.components.items():
        unequal = isinstance(widths, list) and len(set(widths)) > 1
        if component["kind"] == "diversity" and component["sides"] in ("both", side) and unequal:
            yield Problem((*path, "kind"), f"found diversity over {side} layers of unequal widths; expected one width")


def _residuals(m: _Model, side: str) -> Iterator[Problem]:
    """A side's residual, its layer, and the components that would read a stream of several tensors."""
    residual, layer = m[side, "residual"], m[side, "layer"]
    if residual.kind != "plain" and not layer.cls.takes_residual:
        yield m.wrong((side, "residual"), f" with layer {layer.kind}", "plain")
    if not residual.cls.streams and residual.cls.order("pre", **residual.options) == "pre":
        return
    why = f" with residual {residual.kind}, whose " + ("stream is several tensors" if residual.cls.streams else "layers have no norms")
    yield from m.only_defaults(side, ("connection", "aggregation"), why)
    attention = m[side, "self_attention"].cls
    if attention.reads_stream or (residual.cls.takes_views and not attention.takes_views):
        yield m.wrong((side, "self_attention"), why, "single")
    if side == "decoder" and m[side, "cross_attention"].cls.reads_stream:
        yield m.wrong((side, "cross_attention"), why, "single")
    if side == "encoder" and m["bridge",].cls.reads_layers:
        yield m.wrong(("bridge",), why, lambda b: not b.reads_layers)
    if side == "encoder" and m.get("context"):
        yield m.wrong(("context",), why, "no context")
    for path, component in m.components.items():
        reads = path[0] == "regularizers" and REGISTRIES["regularizer"].get(component["kind"]).reads_layers
        if reads and component.get("sides", side) in ("both", side):
            yield Problem((*path, "kind"), f"found {component['kind']}{why}; expected no such term on the {side}")


def _bridge(m: _Model) -> Iterator[Problem]:
    """Components that read encoder states whose width may differ from d_model; a decoder layer and its cross-attention, one family."""
    layer, bridge = m["encoder", "layer"], m["bridge",]
    if bridge.cls.reads_residual not in (None, m["encoder", "residual"].kind):
        yield m.wrong(("encoder", "residual"), f" with bridge {bridge.kind}, which reads its stream", bridge.cls.reads_residual)
    if layer.cls.any_width and not bridge.cls.any_width:
        yield m.wrong(("bridge",), f" with layer {layer.kind} in the encoder", lambda b: b.any_width)
    if layer.cls.any_width and m.get("context"):
        yield m.wrong(("context",), f" with layer {layer.kind} in the encoder", "no context")
    reader, cross = m["decoder", "layer"], m["decoder", "cross_attention"]
    if cross.cls.bare != reader.cls.adds_attended:
        yield m.wrong(("decoder", "cross_attention"), f" with layer {reader.kind}", lambda c: c.bare == reader.cls.adds_attended)
    if cross.cls.bare != bridge.cls.mapped:
        yield m.wrong(("bridge",), f" with cross_attention {cross.kind}", lambda b: b.mapped == cross.cls.bare)


def _contexts(m: _Model) -> Iterator[Problem]:
    """Blocks of layers, their contexts and the components that read them."""
    bridge, context, attention, aggregation = m["bridge",], m.get("context"), m["encoder", "self_attention"], m["encoder", "aggregation"]
    if attention.cls.reads_context and context is None:
        yield m.wrong(("encoder", "self_attention"), " without context", "model.context.kind multiscale")
    if context is not None:
        if not bridge.cls.reads_context and (not attention.cls.reads_context or context.options["blocks"] == 1):
            yield m.wrong(("context",), ", which nothing reads", "bridge.kind multiscale")
        if not bridge.cls.needs_output:
            yield m.wrong(("bridge",), " with a context, whose last block ends in the encoder's output", lambda b: b.needs_output)
        own, blocks = bridge.options.get("blocks"), context.options["blocks"]
        if own not in (None, blocks):
            yield Problem(("bridge", "blocks"), f"found {own}; expected {blocks}, the blocks of the context")
    cut, cutting = ("context", context) if context is not None else ("bridge", bridge)
    if (context is not None or "blocks" in bridge.options) and not aggregation.cls.top_alone:
        assert cutting is not None
        yield m.wrong(("encoder", "aggregation"), "", f"top: {cut} {cutting.kind} cuts the encoder into blocks")
    if not bridge.cls.needs_output and aggregation.kind != "top":
        yield m.wrong(("encoder", "aggregation"), f", which bridge {bridge.kind} does not read", "top")


def _memories(m: _Model) -> Iterator[Problem]:
    """Extra encoder, bridge and cross-attention: every memory is read, and none is missing."""
    extra, bridge, attention = m.get("extra_encoder"), m["bridge",], m["decoder", "cross_attention"]
    if bridge.cls.reads_extra and extra is None:
        fits = _names("extra_encoder", lambda e: e.aligned or not bridge.cls.needs_aligned)
        yield m.wrong(("bridge",), " without extra_encoder", f"model.extra_encoder.kind {fits}")
    if extra is not None and not bridge.cls.reads_extra:
        why, fits = f", whose memory bridge {bridge.kind} does not read", _names("bridge", lambda b: b.reads_extra)
        yield m.wrong(("extra_encoder",), why, f"bridge.kind {fits}")
    if extra is not None and bridge.cls.needs_aligned and not extra.cls.aligned:
        fits = _names("extra_encoder", lambda e: e.aligned)
        yield m.wrong(("extra_encoder",), "", f"{fits}: bridge {bridge.kind} merges source position by position")
    memories = bridge.cls.num_memories + int(bridge.cls.reads_context and m.get("context") is not None)
    if memories > attention.cls.max_memories:
        fits = _names("cross_attention", lambda c: c.max_memories >= memories and c.bare == attention.cls.bare)
        why = f", which gives {memories} memories, of which {attention.kind} reads {attention.cls.max_memories}"
        yield m.wrong(("bridge",), why, f"model.decoder.cross_attention.kind {fits}")


def _head(m: _Model) -> Iterator[Problem]:
    """The head, and what it reads of the decoder's layers and of the encoder."""
    head, bridge, residual = m.get("head"), m["bridge",], m["decoder", "residual"]
    if head is None:
        return
    for side in ("encoder", "decoder"):
        if m[side, "layer"].cls.any_width:
            yield m.wrong(("head",), f" with layer {m[side, 'layer'].kind}", "no head")
    if head.cls.reads_layers:
        yield from m.only_defaults("decoder", ("aggregation", "connection"), f" with head {head.kind}, which reads the decoder's layers")
        if residual.cls.streams or residual.cls.order("pre", **residual.options) != "pre":
            yield m.wrong(("decoder", "residual"), f" with head {head.kind}", "plain")
    if head.cls.reads_words and (bridge.cls.by_sentence or not bridge.cls.needs_output):
        why = f" with head {head.kind}, which reads the encoder's output"
        yield m.wrong(("bridge",), why, lambda b: b.needs_output and not b.by_sentence)


def _names(registry: str, accepts: Callable[[Any], bool]) -> str:
    known = REGISTRIES[registry]
    return " or ".join(name for name in known.names() if accepts(known.get(name)))
