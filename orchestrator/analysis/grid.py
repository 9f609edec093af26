"""The grid of an encoder: N blocks of M layers, block n read by decoder layer n (Wei et al. 2020, Table 1), counted in the built model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from models import build
from orchestrator.analysis.base import Analysis, Context, Subject
from orchestrator.analysis.style import COLOURS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NEEDS_RUNS = False
NAMES = ("encoder_layers", "decoder_layers", "blocks", "layers_per_block")
COLUMNS = ["row", "label", *NAMES, *(f"paper_{name}" for name in NAMES), "agrees"]
SHOWN = ["label", *NAMES, "agrees"]
VOCAB = 8
"""Words of the model that is built: the grid does not depend on them."""


def analyse(context: Context) -> Analysis:
    """A record for each row: its grid and what the paper says of it. A model without blocks is one block."""
    records = [of_row(subject) for subject in context.subjects]
    notes = [f"{r['label']}: the paper says otherwise" for r in records if r["agrees"] is False]
    return Analysis("grid", COLUMNS, records, lambda figure: _draw(figure, records), notes, shown=SHOWN)


def of_row(subject: Subject) -> dict[str, Any]:
    with torch.device("meta"):
        model = build(subject.spec.model.model_dump(), VOCAB, VOCAB)
    layers = len(model.encoder.layers)
    blocks = int(getattr(model.bridge, "blocks", 1))
    found = dict(zip(NAMES, (layers, len(model.decoder.layers), blocks, layers // blocks), strict=True))
    expect = (subject.asked or subject.row).expect
    said = {name: expect.get(name) for name in NAMES}
    agrees = None if None in said.values() else said == found
    paper = {f"paper_{name}": value for name, value in said.items()}
    return {"row": subject.row.id, "label": subject.label} | found | paper | {"agrees": agrees}


def _draw(figure: Figure, records: list[dict[str, Any]]) -> None:
    """A bar of N parts of M layers for each row."""
    axes = figure.add_subplot()
    for i, record in enumerate(records):
        for block in range(record["blocks"]):
            left = block * record["layers_per_block"]
            axes.barh(i, record["layers_per_block"], left=left, color=COLOURS[0], edgecolor="white", linewidth=1.0)
    axes.set_yticks(range(len(records)), [record["label"] for record in records])
    axes.invert_yaxis()
    axes.set_xlabel("encoder layers, in blocks")
