"""Whether the components of one model fit each other, each being right by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from orchestrator.specs.messages import Problem
from orchestrator.specs.positions import KeyPath
from orchestrator.specs.widths import check_widths

SELF_ATTENTION: KeyPath = ("encoder", "self_attention", "kind")


def check_fit(filled: dict[KeyPath, dict[str, Any]]) -> list[Problem]:
    """The first thing that does not fit. filled: path below `model` -> component with its defaults."""
    from models.registry import REGISTRIES

    registries: dict[str, Any] = dict(REGISTRIES)
    return check_widths(filled, registries) or _check_contexts(filled, registries) or _check_memories(filled, registries)


def _check_contexts(filled: dict[KeyPath, dict[str, Any]], registries: dict[str, Any]) -> list[Problem]:
    """Blocks, their contexts and whoever reads them."""
    bridge = filled.get(("bridge",), {"kind": "top"})
    context = filled.get(("context",))
    attention = filled.get(("encoder", "self_attention"), {"kind": "single"})["kind"]
    aggregation = filled.get(("encoder", "aggregation"), {"kind": "top"})["kind"]
    reader = registries["bridge"].get(bridge["kind"])
    in_encoder = registries["self_attention"].get(attention).reads_context
    if in_encoder and context is None:
        return [Problem(SELF_ATTENTION, f"found {attention} without context; expected model.context.kind multiscale")]
    if context is not None and not reader.reads_context and (not in_encoder or context["blocks"] == 1):
        return [Problem(("context", "kind"), f"found {context['kind']}, which nothing reads; expected bridge.kind multiscale")]
    if context is not None and bridge.get("blocks", context["blocks"]) != context["blocks"]:
        return [Problem(("bridge", "blocks"), f"found {bridge['blocks']}; expected {context['blocks']}, the blocks of the context")]
    cut = "context" if context is not None else "bridge" if "blocks" in bridge else None
    if cut is not None and not registries["aggregation"].get(aggregation).top_alone:
        path: KeyPath = ("encoder", "aggregation", "kind")
        return [Problem(path, f"found {aggregation}; expected top: {cut} {filled[(cut,)]['kind']} cuts the encoder into blocks")]
    if not reader.needs_output and aggregation != "top":
        path = ("encoder", "aggregation", "kind")
        return [Problem(path, f"found {aggregation}, which bridge {bridge['kind']} does not read; expected top")]
    return []


def _check_memories(filled: dict[KeyPath, dict[str, Any]], registries: dict[str, Any]) -> list[Problem]:
    """Extra encoder, bridge and cross-attention."""

    def find(path: KeyPath, registry: str, default: str | None) -> tuple[str, Any]:
        kind = filled.get(path, {"kind": default})["kind"]
        return kind, None if kind is None else registries[registry].get(kind)

    def names(registry: str, wanted: Callable[[Any], bool]) -> str:
        return " or ".join(name for name in registries[registry].names() if wanted(registries[registry].get(name)))

    extra, encoder = find(("extra_encoder",), "extra_encoder", None)
    bridge, reader = find(("bridge",), "bridge", "top")
    cross, attention = find(("decoder", "cross_attention"), "cross_attention", "single")
    at, extras = ("bridge", "kind"), names("bridge", lambda b: b.reads_extra)
    if reader.reads_extra and encoder is None:
        aligned = names("extra_encoder", lambda e: e.aligned or not reader.needs_aligned)
        return [Problem(at, f"found {bridge} without extra_encoder; expected model.extra_encoder.kind {aligned}")]
    if encoder is not None and not reader.reads_extra:
        return [
            Problem(("extra_encoder", "kind"), f"found {extra}, whose memory bridge {bridge} does not read; expected bridge.kind {extras}")
        ]
    if reader.needs_aligned and not encoder.aligned:
        aligned = names("extra_encoder", lambda e: e.aligned)
        return [
            Problem(("extra_encoder", "kind"), f"found {extra}; expected {aligned}: bridge {bridge} merges source position by position")
        ]
    given = reader.num_memories + int(reader.reads_context and ("context",) in filled)
    if given > attention.max_memories:
        two = names("cross_attention", lambda c: c.max_memories >= given and c.bare == attention.bare)
        few = f"found {bridge}, which gives {given} memories, of which {cross} reads {attention.max_memories}"
        return [Problem(at, f"{few}; expected model.decoder.cross_attention.kind {two}")]
    return []
