"""What each method learned to read of the layers below: weights of connections, residuals, shared values and bridges, side by side.

The numbers are a class's own `weights`. Those that depend on the token are means over the tokens of test pairs, teacher forced on the
reference. Of a residual with streams that are kept and written, way `sum` has how much of what each sub-layer gave (h_0 first) is in what
each sub-layer reads, the streams multiplied out; `spread` is how far streams are from their mean, as a share of their size.

Shapes: T tokens, n streams, J sources, M sub-layers of a stack.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from math import isnan
from typing import Any

import pandas as pd
import torch
from matplotlib.figure import Figure
from torch import Tensor

from models.component import Component
from models.seams import Residual
from models.stack import Stack
from models.sublayer import SubLayer
from models.transformer import Transformer
from orchestrator.analysis import figures
from orchestrator.analysis.base import Analysis, AnalysisContext, Records, Subject, register, table_of
from orchestrator.decoding.beam import BOS

Matrix = dict[int, list[float]]
"""Reader (layer or sub-layer, from 1) -> its weights, the lowest source first."""
Found = dict[tuple[str, str, str], Matrix]
"""By side, component and way."""


@register("layer-weights", options={"sentences": "100"}, needs_weights=True)
def analyse(context: AnalysisContext) -> Analysis:
    """Returns one record per reader and source. Raises UserError if no row has such weights.

    Options: `sentences`, how many of the test set, or all.
    """
    records, notes = context.each_row(analyse_row)
    readers = pd.DataFrame(records).groupby(["row", "side", "component", "way", "reader"], sort=False).weight.agg(["first", "last"])
    means = readers.groupby(["row", "side", "component", "way"], sort=False).mean()
    return Analysis(records, draw, notes, table_of("weight of the lowest and of the newest source, mean over readers:", means))


def analyse_row(context: AnalysisContext, subject: Subject, notes: list[str]) -> Records:
    prepared, test = context.prepared(subject), subject.spec.score.test
    limit = context.limit("sentences")
    sources = prepared.encode(prepared.sources(test)[:limit])
    targets = prepared.encode(prepared.references(test)[0][:limit], "tgt")
    found = weights_of(context.model(subject), zip(sources, targets, strict=True))
    if not found:
        notes.append(f"{subject.row.id}: no component of it weighs layers or streams; left out")
    return [
        subject.columns | {"side": side, "component": component, "way": way, "reader": reader, "source": source, "weight": round(weight, 6)}
        for (side, component, way), matrix in found.items()
        for reader, weights in sorted(matrix.items())
        for source, weight in enumerate(weights)
        if not isnan(weight)
    ]


@torch.no_grad()
def weights_of(model: Transformer, pairs: Iterable[tuple[Sequence[int], Sequence[int]]]) -> Found:
    """The weights of every component that has some, in the order of the model: encoder, bridge, decoder."""
    found: Found = defaultdict(dict)
    for name, module in model.named_modules():
        if isinstance(module, Component) and not isinstance(module, Residual):
            parts = name.split(".")
            layer = int(parts[parts.index("layers") + 1]) + 1 if "layers" in parts else 1
            for way, weights in module.weights().items():
                for reader, row in enumerate(weights[None] if weights.dim() == 1 else weights, start=layer):
                    found[parts[0], module.kind, way][reader] = row.tolist()
    for side in ("encoder", "decoder"):
        for way, matrix in _residuals(model, getattr(model, side), pairs := list(pairs)).items():
            found[side, getattr(model, side).layers[0].sublayer.residual.kind, way] = matrix
    return {key: found[key] for key in sorted(found, key=lambda key: key[0] == "decoder")}


def _residuals(model: Transformer, stack: Stack, pairs: Sequence[tuple[Sequence[int], Sequence[int]]]) -> dict[str, Matrix]:
    """Means over all tokens of a stack, by way."""
    sublayers = [module for module in stack.modules() if isinstance(module, SubLayer)]
    if all(type(module.residual).weights is Residual.weights for module in sublayers):
        return {}
    seen: list[dict[str, Tensor]] = []

    def end(_: Any, given: Any, made: tuple[Tensor, Any]) -> None:
        seen.append({"read": torch.ones(1)} if stack.residual is None else stack.residual.weights(made[1].outputs[-1]))

    totals: dict[str, dict[int, Tensor]] = defaultdict(dict)
    tokens = 0
    with ExitStack() as hooks:
        for module in sublayers:
            hooks.enter_context(module.register_forward_pre_hook(lambda module, given: seen.append(module.residual.weights(given[0]))))
        hooks.enter_context(stack.register_forward_hook(end))
        for source, target in pairs:
            seen.clear()
            model.decode(torch.tensor([[BOS, *target]]), model.encode(torch.tensor([source])))
            count = len(source) if stack is model.encoder else len(target) + 1
            tokens += count
            for way, rows in _ways(seen, count).items():
                for reader, row in rows.items():
                    totals[way][reader] = totals[way].get(reader, torch.zeros(())) + row.double().sum(0)
    return {way: {reader: (row / tokens).tolist() for reader, row in rows.items()} for way, rows in totals.items()}


def _ways(seen: Sequence[dict[str, Tensor]], tokens: int) -> dict[str, dict[int, Tensor]]:
    """Way -> reader -> weights [T, J] of one sentence; the last reader is the stack's output."""
    found: dict[str, dict[int, Tensor]] = defaultdict(dict)
    for reader, own in enumerate(seen, start=1):
        for way, weights in own.items():
            if way not in ("read", "keep", "write"):
                found[way][reader] = _by_token(weights, tokens, 1)
    if any("keep" in own for own in seen):
        found["sum"] = dict(enumerate(multiplied_out(seen, tokens), start=1))
    return found


def multiplied_out(seen: Sequence[dict[str, Tensor]], tokens: int) -> list[Tensor]:
    """For each x_i = p S, S' = R S + q y_i, its shares [T, i] of h_0, y_1 .. y_{i-1}; the last element of `seen` has p alone."""
    streams = seen[0]["read"].shape[-1]
    inside = torch.ones(tokens, streams, 1)  # the share of each source in each stream
    shares = []
    for own in seen:
        shares.append((_by_token(own["read"], tokens, 1)[:, None] @ inside)[:, 0])
        if "keep" in own:
            written = _by_token(own["write"], tokens, 1)[..., None]
            inside = torch.cat((_by_token(own["keep"], tokens, 2) @ inside, written), dim=-1)
    return shares


def _by_token(weights: Tensor, tokens: int, axes: int) -> Tensor:
    """[.., *own] -> [T, *own], own the last `axes` axes; those without tokens are the same for each."""
    own = weights.shape[-axes:]
    return weights.reshape(-1, *own).expand(tokens, *own) if weights.dim() == axes else weights.reshape(tokens, *own)


def draw(figure: Figure, records: Records) -> None:
    """Draws a line per row with a heat map per matrix: readers from top to bottom, sources from left to right."""
    frame, grid = pd.DataFrame(records), []
    for _, of_row in frame.groupby("row", sort=False):
        matrices = of_row.groupby(["label", "side", "component", "way"], sort=False)
        titles = ((f"{figures.short(label, 34)}\n{' '.join(names)}", own) for (label, *names), own in matrices)
        grid.append([figures.HeatMap(title, own.pivot(index="reader", columns="source", values="weight")) for title, own in titles])
    figures.heat_maps(figure, grid, ("source", "reader"), "weight")
