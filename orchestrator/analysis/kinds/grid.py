"""The grid of an encoder (Wei et al. 2020, Table 1), counted in the built model: N blocks of M layers; decoder layer n reads block n."""

from __future__ import annotations

from typing import Any

import torch

from models import build
from orchestrator.analysis.base import Analysis, AnalysisContext, Subject
from orchestrator.analysis.registry import register

NAMES = ("encoder_layers", "decoder_layers", "blocks", "layers_per_block")
SHOWN = ["label", *NAMES, "agrees"]
VOCAB = 8
"""Vocabulary size of the built model, on which the grid does not depend."""


@register("grid", needs_runs=False)
def analyse(context: AnalysisContext) -> Analysis:
    """Returns one record per row with its grid and the paper's. A model without blocks counts as one block."""
    records = [analyse_row(subject) for subject in context.subjects]
    notes = [f"{r['label']}: the paper says otherwise" for r in records if r["agrees"] is False]
    return Analysis("grid", records, notes=notes, shown=SHOWN)


def analyse_row(subject: Subject) -> dict[str, Any]:
    with torch.device("meta"):
        model = build(subject.spec.model.model_dump(), VOCAB, VOCAB)
    layers = len(model.encoder.layers)
    blocks = int(getattr(model.bridge, "blocks", 1))
    ours = dict(zip(NAMES, (layers, len(model.decoder.layers), blocks, layers // blocks), strict=True))
    paper = {name: subject.expect.get(name) for name in NAMES}
    agrees = None if None in paper.values() else paper == ours
    about = {"row": subject.row.id, "label": subject.label}
    return about | ours | {f"paper_{name}": value for name, value in paper.items()} | {"agrees": agrees}
