"""What a probe is of: the architecture at its batch and data, and the machine. Equal content, one probe."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from typing import Any

from orchestrator.files.canonical import digest
from orchestrator.ledger.keys import model_text
from orchestrator.ledger.provenance import processor
from orchestrator.specs.schema import RunSpec
from orchestrator.training.runtime import best_device

FORMAT = 1
"""Raised when probes measure something else."""


@functools.cache
def machine() -> dict[str, Any]:
    """The device that trainings use here, by name, and torch's version."""
    import torch

    device = best_device()
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else processor()
    return {"device": device.type, "name": name, "torch": str(torch.__version__)}


def about(spec: RunSpec, manifest: Mapping[str, Any], sizes: tuple[int, int]) -> dict[str, Any]:
    """Plain data: what decides the seconds of an update and of a decoded sentence, and nothing else (no rate, seed or length)."""
    from orchestrator.ledger.keys import training_key

    train, search = spec.train, spec.search
    return {
        "format": FORMAT,
        "machine": machine(),
        "threads": train.threads,
        "precision": train.precision,
        "compile": train.compile,
        "recompute": train.recompute,
        "model": json.loads(model_text(spec.model)),
        "vocab": list(sizes),
        "data": training_key(dict(manifest)),
        "batch": spec.batch.model_dump(mode="json"),
        "optim": [spec.optim.kind, spec.optim.clip_norm is not None],
        "decode": [search.beam_size, search.precision, search.no_repeat_ngram],
    }


def key_of(about: Mapping[str, Any]) -> str:
    return digest(about)


def comparable(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """May the rate of one be taken for the other?"""
    same = ("format", "machine", "threads", "precision", "compile", "recompute")
    return all(one[name] == other[name] for name in same)


def distance(one: Mapping[str, Any], other: Mapping[str, Any]) -> float:
    """How unlike two architectures are: 1 for each other component, and for each factor e in width, depth, vocabulary or batch."""
    import math

    def factor(a: float, b: float) -> float:
        return abs(math.log(max(a, 1e-9) / max(b, 1e-9)))

    found = sum(factor(one["model"][name], other["model"][name]) for name in ("d_model", "d_ff"))
    for side in ("encoder", "decoder"):
        mine, yours = one["model"][side], other["model"][side]
        found += factor(mine["num_layers"], yours["num_layers"])
        found += sum(mine.get(name) != yours.get(name) for name in {*mine, *yours} - {"num_layers"})
    parts = ("bridge", "extra_encoder", "context", "regularizers", "embeddings")
    found += sum(one["model"].get(name) != other["model"].get(name) for name in parts)
    found += factor(one["vocab"][1], other["vocab"][1]) + factor(one["batch"]["size"], other["batch"]["size"])
    return found + (one["data"] != other["data"]) + (one["decode"] != other["decode"])
