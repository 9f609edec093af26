"""What a fusion of layers can do (Wang et al. 2018, Table 1), found out from the modules themselves, without training.

The top read and aggregation of a stack are built, drawn at random and given independent states z^0..z^L:
low_level_accessible   some state below the highest has a gradient at the output
parametric             the shares of the states in the output (norms of their gradients) move when the parameters are drawn anew
representation_2d      the states are weighted by an attention of several hops: what is fused is a matrix (hops x d), not a vector
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from models.config import ModelConfig, options
from models.registry import AGGREGATIONS, CONNECTIONS
from models.site import Flow, History, Site
from orchestrator.analysis import properties_figure
from orchestrator.analysis.base import Analysis, Context, Subject

if TYPE_CHECKING:
    from orchestrator.specs.schema import ModelSpec

NEEDS_RUNS = False
NAMES = ("low_level_accessible", "parametric", "representation_2d")
SHOWN = ["label", "side", "fusion", *NAMES, "agrees"]
COLUMNS = ["row", *SHOWN[:-1], *(f"paper_{name}" for name in NAMES), "agrees", "hops"]
ATOL = 1e-9


@dataclass(frozen=True)
class Properties:
    """shares: of the states z^0..z^L in the output, adding up to 1; hops: of the layer attention, 0 without one."""

    low_level_accessible: bool
    parametric: bool
    representation_2d: bool
    shares: list[float]
    hops: int


def analyse(context: Context) -> Analysis:
    """A record for each row and side that fuses (the decoder of a row that does not), beside what the paper says of it.

    Columns l0..lL: share of each state in the output, at random weights.
    """
    records: list[dict[str, Any]] = []
    for subject in context.subjects:
        records += of_row(subject)
    notes = [
        f"{r['row']}, {r['side']}: differs from the paper's {', '.join(n for n in NAMES if r[f'paper_{n}'] not in (None, r[n]))}"
        for r in records
        if r["agrees"] is False
    ]
    columns = [*COLUMNS, *properties_figure.layers(records)]
    return Analysis("properties", columns, records, partial(properties_figure.draw, records), notes, shown=SHOWN)


def of_row(subject: Subject) -> list[dict[str, Any]]:
    expect = (subject.asked or subject.row).expect
    said = {name: value if isinstance(value := expect.get(name), bool) else None for name in NAMES}
    records = []
    for side, fusion in fusing(subject.spec.model):
        found = properties(subject.spec.model, side)
        record: dict[str, Any] = {"row": subject.row.id, "label": subject.label, "side": side, "fusion": fusion}
        record |= {name: getattr(found, name) for name in NAMES} | {f"paper_{name}": value for name, value in said.items()}
        agrees = None if None in said.values() else all(getattr(found, name) == value for name, value in said.items())
        shares = {f"l{i}": round(share, 6) for i, share in enumerate(found.shares)}
        records.append(record | {"agrees": agrees, "hops": found.hops} | shares)
    return records


def fusing(model: ModelSpec) -> list[tuple[str, str]]:
    """(side, what fuses) for sides that do not simply return their top; the decoder where neither fuses."""
    sides = {
        side: f"{config.connection['kind']} -> {config.aggregation['kind']}" if config.connection["kind"] != "residual" else kind
        for side, config in (("encoder", model.encoder), ("decoder", model.decoder))
        if (kind := str(config.aggregation["kind"])) != "top" or config.connection["kind"] != "residual"
    }
    return list(sides.items()) or [("decoder", "top")]


def properties(model: ModelSpec, side: str, seed: int = 1) -> Properties:
    """Of one side of a model. `seed`: of the random states and parameters, which the answer does not depend on."""
    config = ModelConfig.of(model.model_dump())
    own = config.encoder if side == "encoder" else config.decoder
    site = Site(side, 0, own.num_layers, config, shared={})
    connection = CONNECTIONS.get(own.connection["kind"])(site, **options(own.connection))
    aggregation = AGGREGATIONS.get(own.aggregation["kind"])(site, **options(own.aggregation))
    fusion = nn.ModuleList([connection, aggregation]).double().eval()
    found: list[list[float]] = []
    hops = 0
    for draw in (seed, seed + 1):
        generator = torch.Generator().manual_seed(draw)
        _redraw(fusion, generator)
        trace: list[tuple[nn.Module, Tensor]] = []
        states, output = _run(connection, aggregation, own.num_layers, site.d_model, seed, trace)
        direction = torch.randn(output.shape, generator=torch.Generator().manual_seed(seed), dtype=output.dtype)
        gradients = torch.autograd.grad((output * direction).sum(), states, allow_unused=True)
        norms = [0.0 if g is None else float(g.norm()) for g in gradients]
        found.append([norm / sum(norms) for norm in norms])
        hops = max((int(a.shape[-1]) for module, a in trace if module is aggregation), default=0)
    moved = max(abs(a - b) for a, b in zip(*found, strict=True)) > ATOL
    return Properties(any(share > ATOL for share in found[0][:-1]), moved, hops > 1, found[0], hops)


def _run(
    connection: Any, aggregation: Any, layers: int, width: int, seed: int, trace: list[tuple[nn.Module, Tensor]]
) -> tuple[list[Tensor], Tensor]:
    """(independent states z^0..z^L [1, 2, D], output [1, 2, D]); what layers read is taken as given."""
    drawn = _draws(seed, width)
    states = [next(drawn) for _ in range(layers + 1)]
    history = History(states[0])
    for layer, state in enumerate(states[1:], start=1):
        history.inputs.append(next(drawn))
        history.outputs.append(state)
        history.attended.append(None)
        history.kept.append(connection.keep(layer, state, history))
    flow = Flow(trace=trace)
    top = connection(layers + 1, history, flow) if aggregation.reads_top else states[-1]
    return states, aggregation(top, history, flow)


def _draws(seed: int, width: int) -> Iterator[Tensor]:
    generator = torch.Generator().manual_seed(1000 + seed)
    while True:
        yield torch.randn(1, 2, width, generator=generator, dtype=torch.float64).requires_grad_()


@torch.no_grad()
def _redraw(module: nn.Module, generator: torch.Generator) -> None:
    """Every parameter anew: weights by their width, so that activations neither saturate nor vanish."""
    for parameter in module.parameters():
        scale = 1.0 if parameter.dim() < 2 else parameter.shape[-1] ** -0.5
        parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype) * scale)
