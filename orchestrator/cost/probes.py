"""Probes: made in processes of their own, and kept in RESULTS/probes/KEY16.json, which can be deleted at any time.

The key covers the conditions of a probe: architecture, batch, data and machine.
"""

from __future__ import annotations

import functools
import json
import math
import multiprocessing
import os
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import torch

from orchestrator.files.canonical import canonical, digest
from orchestrator.files.documents import read_or_tell, write_document
from orchestrator.ledger.keys import model_meaning, short, training_key
from orchestrator.ledger.provenance import processor
from orchestrator.specs.components import WHOLE_SLOTS
from orchestrator.specs.schema import RunSpec
from orchestrator.training.runtime import best_device

FORMAT = 1
"""Version of the probes, increased whenever they measure something else."""
FOLDER = "probes"
MEASURES = ("train_flops", "train_seconds", "valid_flops", "valid_seconds", "row_steps", "decode_seconds", "decode_weights")
"""Fields of every probe: work in FLOP or hypotheses times steps, its seconds, and the number of weights applied to a target position."""


@functools.cache
def machine() -> dict[str, Any]:
    """Type and name of the device used for training here, and the version of torch."""
    device = best_device()
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else processor()
    return {"device": device.type, "name": name, "torch": str(torch.__version__)}


def conditions(spec: RunSpec, manifest: Mapping[str, Any], sizes: tuple[int, int]) -> dict[str, Any]:
    """Everything that determines the seconds of an update and of a decoded sentence, as plain data: no learning rate, seed or length."""
    train, search = spec.train, spec.search
    return {
        "format": FORMAT,
        "machine": machine(),
        "threads": train.threads,
        "precision": train.precision,
        "compile": train.compile,
        "recompute": train.recompute,
        "model": json.loads(canonical(model_meaning(spec.model))),
        "vocab": list(sizes),
        "data": training_key(dict(manifest)),
        "batch": spec.batch.model_dump(mode="json"),
        "optim": [spec.optim.kind, spec.optim.clip_norm is not None],
        "decode": [search.beam_size, search.precision, search.no_repeat_ngram],
    }


def key_of(conditions: Mapping[str, Any]) -> str:
    """The key of a probe with these conditions."""
    return digest(conditions)


def comparable(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Returns True if the rate measured under one set of conditions applies to the other."""
    same = ("format", "machine", "threads", "precision", "compile", "recompute")
    return all(one[name] == other[name] for name in same)


def distance(one: Mapping[str, Any], other: Mapping[str, Any]) -> float:
    """Distance of two architectures: 1 for each different component and for each factor e in width, depth, vocabulary or batch."""

    def factor(a: float, b: float) -> float:
        return abs(math.log(max(a, 1e-9) / max(b, 1e-9)))

    total = sum(factor(one["model"][name], other["model"][name]) for name in ("d_model", "d_ff"))
    for side in ("encoder", "decoder"):
        mine, yours = one["model"][side], other["model"][side]
        total += factor(mine["num_layers"], yours["num_layers"])
        total += sum(mine.get(name) != yours.get(name) for name in {*mine, *yours} - {"num_layers"})
    parts = (*WHOLE_SLOTS, "regularizers", "embeddings")
    total += sum(one["model"].get(name) != other["model"].get(name) for name in parts)
    total += factor(one["vocab"][1], other["vocab"][1]) + factor(one["batch"]["size"], other["batch"]["size"])
    return total + (one["data"] != other["data"]) + (one["decode"] != other["decode"])


def write(results: Path, conditions: dict[str, Any], measures: dict[str, Any]) -> None:
    """Writes a probe durably and atomically; replaces an earlier one under the same conditions."""
    key = key_of(conditions)
    write_document(results / FOLDER / f"{short(key)}.json", {"about": conditions, "measures": measures}, key)


def read_all(results: Path) -> dict[str, dict[str, Any]]:
    """Reads all probes: key -> {"about": conditions, "measures"}. Damaged and foreign files are skipped."""
    probes: dict[str, dict[str, Any]] = {}
    folder = results / FOLDER
    for path in sorted(folder.glob("*.json")) if folder.is_dir() else []:
        try:
            record = read_or_tell(path)
            if record is not None and key_of(record["about"]) == record["key"] and all(record["measures"][name] >= 0 for name in MEASURES):
                probes[record["key"]] = record
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return probes


def make(results: Path, conditions: dict[str, Any], spec: RunSpec, data_dir: Path | None, cache_dir: Path) -> None:
    """Measures in a process of its own, so that its peak memory is its own, and writes the probe. Any exception where that fails."""
    from orchestrator.cost.measure import measure  # deferred: imports the training loop

    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, spawn, initializer=os.dup2, initargs=(2, 1)) as pool:  # its output must not mix with --json
        measures = pool.submit(measure, spec, data_dir, cache_dir, results / FOLDER).result()
    write(results, conditions, measures)
