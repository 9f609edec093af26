"""Properties of layer fusions (Wang et al. 2018, Table 1), determined from the modules themselves, without training.

The top connection and the aggregation of a stack are built, initialised at random and applied to independent states z^0..z^L:
low_level_accessible   some state below the highest has a gradient at the output
parametric             the shares of the states in the output (norms of their gradients) change when the parameters are redrawn
representation_2d      attention with several hops weights the states: the fusion gives a matrix (hops x d), not a vector
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from models.config import ModelConfig, options
from models.registry import AGGREGATIONS, CONNECTIONS
from models.site import Flow, History, Site
from orchestrator.analysis.base import Analysis, AnalysisContext, Records, Subject
from orchestrator.analysis.registry import register
from orchestrator.specs.schema import ModelSpec

NAMES = ("low_level_accessible", "parametric", "representation_2d")
SHOWN = ["label", "side", "fusion", *NAMES, "agrees"]
ATOL = 1e-9


@dataclass(frozen=True)
class Properties:
    """Properties of a fusion. shares: of the states z^0..z^L in the output, summing to 1. hops: of the layer attention, 0 without one."""

    low_level_accessible: bool
    parametric: bool
    representation_2d: bool
    shares: list[float]
    hops: int


@register("properties", needs_runs=False)
def analyse(context: AnalysisContext) -> Analysis:
    """Returns one record per row and fusing side (the decoder if none fuses) with the paper's properties.

    Columns l0..lL: share of each state in the output with random weights.
    """
    records = [record for subject in context.subjects for record in analyse_row(subject)]
    notes = [
        f"{r['row']}, {r['side']}: differs from the paper's {', '.join(n for n in NAMES if r[f'paper_{n}'] not in (None, r[n]))}"
        for r in records
        if r["agrees"] is False
    ]
    return Analysis("properties", records, notes=notes, shown=SHOWN)


def analyse_row(subject: Subject) -> Records:
    paper = {name: value if isinstance(value := subject.expect.get(name), bool) else None for name in NAMES}
    records: Records = []
    for side, fusion in fusing_sides(subject.spec.model):
        ours = properties(subject.spec.model, side)
        values = {name: getattr(ours, name) for name in NAMES}
        record: dict[str, Any] = {"row": subject.row.id, "label": subject.label, "side": side, "fusion": fusion} | values
        record |= {f"paper_{name}": value for name, value in paper.items()}
        record |= {"agrees": None if None in paper.values() else values == paper, "hops": ours.hops}
        records.append(record | {f"l{i}": round(share, 6) for i, share in enumerate(ours.shares)})
    return records


def fusing_sides(model: ModelSpec) -> list[tuple[str, str]]:
    """Returns (side, fusion) for sides that do not simply return their top layer; the decoder if there is none."""
    sides = []
    for side, config in (("encoder", model.encoder), ("decoder", model.decoder)):
        connection, aggregation = config.connection["kind"], str(config.aggregation["kind"])
        if connection != "residual":
            sides.append((side, f"{connection} -> {aggregation}"))
        elif aggregation != "top":
            sides.append((side, aggregation))
    return sides or [("decoder", "top")]


def properties(model: ModelSpec, side: str, seed: int = 1) -> Properties:
    """Determines the properties of one side of a model. `seed` draws states and parameters; the properties do not depend on it."""
    config = ModelConfig.of(model.model_dump())
    own = config.encoder if side == "encoder" else config.decoder
    site = Site(side, 0, own.num_layers, config, shared={})
    connection = CONNECTIONS.get(own.connection["kind"])(site, **options(own.connection))
    aggregation = AGGREGATIONS.get(own.aggregation["kind"])(site, **options(own.aggregation))
    fusion = nn.ModuleList([connection, aggregation]).double().eval()
    shares: list[list[float]] = []
    hops = 0
    for draw_seed in (seed, seed + 1):
        _redraw(fusion, torch.Generator().manual_seed(draw_seed))
        trace: list[tuple[nn.Module, Tensor]] = []
        states, output = _run(connection, aggregation, own.num_layers, site.d_model, seed, trace)
        direction = torch.randn(output.shape, generator=torch.Generator().manual_seed(seed), dtype=output.dtype)
        gradients = torch.autograd.grad((output * direction).sum(), states, allow_unused=True)
        norms = [0.0 if g is None else float(g.norm()) for g in gradients]
        shares.append([norm / sum(norms) for norm in norms])
        hops = max((int(a.shape[-1]) for module, a in trace if module is aggregation), default=0)
    moved = max(abs(a - b) for a, b in zip(*shares, strict=True)) > ATOL
    return Properties(any(share > ATOL for share in shares[0][:-1]), moved, hops > 1, shares[0], hops)


def _run(
    connection: Any, aggregation: Any, layers: int, width: int, seed: int, trace: list[tuple[nn.Module, Tensor]]
) -> tuple[list[Tensor], Tensor]:
    """Returns (independent states z^0..z^L [1, 2, D], output [1, 2, D])."""
    generator = torch.Generator().manual_seed(1000 + seed)
    drawn = [torch.randn(1, 2, width, generator=generator, dtype=torch.float64).requires_grad_() for _ in range(2 * layers + 1)]
    states, inputs = drawn[: layers + 1], drawn[layers + 1 :]
    history = History(states[0])
    for layer, (state, x) in enumerate(zip(states[1:], inputs, strict=True), start=1):
        history.inputs.append(x)
        history.outputs.append(state)
        history.attended.append(None)
        history.kept.append(connection.keep(layer, state, history))
    flow = Flow(trace=trace)
    top = connection(layers + 1, history, flow) if aggregation.reads_top else states[-1]
    return states, aggregation(top, history, flow)


@torch.no_grad()
def _redraw(module: nn.Module, generator: torch.Generator) -> None:
    """Redraws every parameter; weights are scaled by their width, so that activations neither saturate nor vanish."""
    for parameter in module.parameters():
        scale = 1.0 if parameter.dim() < 2 else parameter.shape[-1] ** -0.5
        parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype) * scale)
