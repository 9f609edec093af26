"""Blocks, their contexts and whoever reads them: what the parts of one model say of each other."""

from __future__ import annotations

from typing import Any

from orchestrator.places import KeyPath
from orchestrator.problems import Problem

SELF_ATTENTION: KeyPath = ("encoder", "self_attention", "kind")


def check_contexts(filled: dict[KeyPath, dict[str, Any]]) -> list[Problem]:
    """The first thing that does not fit, of components that are right by themselves."""
    from models.registry import REGISTRIES

    registries: dict[str, Any] = dict(REGISTRIES)
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
