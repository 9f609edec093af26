"""What each method learned to read of the layers below: weights of connections, residuals, shared values and bridges, side by side.

The numbers are a class's own `weights`. Those that depend on the token are means over the tokens of test pairs, teacher forced on the
reference. Of a residual with streams that are kept and written, way `sum` has how much of what each sub-layer gave (h_0 first) is in what
each sub-layer reads, the streams multiplied out; `spread` is how far streams are from their mean, as a share of their size.

Shapes: T tokens, n streams, J sources, M sub-layers of a stack.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from math import isnan
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor

from models.component import Component
from models.seams import Residual
from models.stack import Stack
from models.sublayer import SubLayer
from models.transformer import Transformer
from orchestrator.analysis import figures
from orchestrator.analysis.base import Analysis, AnalysisContext, Records, Subject, group_by
from orchestrator.analysis.registry import register
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
    records, notes = context.each_row(partial(analyse_row, context))
    return Analysis("layer-weights", records, partial(draw, records), notes, summary(records))


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
    note: Callable[..., None] = lambda module, given: seen.append(module.residual.weights(given[0]))  # noqa: E731
    hooks = [module.register_forward_pre_hook(note) for module in sublayers]

    def end(_: Any, given: Any, made: tuple[Tensor, Any]) -> None:
        seen.append({"read": torch.ones(1)} if stack.residual is None else stack.residual.weights(made[1].outputs[-1]))

    hooks.append(stack.register_forward_hook(end))
    totals: dict[str, dict[int, Tensor]] = defaultdict(dict)
    tokens = 0
    try:
        for source, target in pairs:
            seen.clear()
            model.decode(torch.tensor([[BOS, *target]]), model.encode(torch.tensor([source])))
            count = len(source) if stack is model.encoder else len(target) + 1
            tokens += count
            for way, rows in _ways(seen, count).items():
                for reader, row in rows.items():
                    totals[way][reader] = totals[way].get(reader, torch.zeros(())) + row.double().sum(0)
    finally:
        for hook in hooks:
            hook.remove()
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


def summary(records: Records) -> list[str]:
    """Returns a line per matrix: what readers of two sources or more read of the lowest and of the newest one, on average."""
    lines = []
    for (row, seed, side, component, way), own in group_by(records, "row", "seed", "side", "component", "way").items():
        rows = [[r["weight"] for r in weights] for weights in group_by(own, "reader").values()]
        longer = [weights for weights in rows if len(weights) > 1]
        if longer:
            low, new = (sum(weights[i] for weights in longer) / len(longer) for i in (0, -1))
            lines.append(f"{row} seed {seed}: {side} {component} {way}  first {low:.3f}  last {new:.3f} of {len(longer)} readers")
        else:
            numbers = "  ".join(f"{weights[0]:.3f}" for weights in rows)
            lines.append(f"{row} seed {seed}: {side} {component} {way}  {numbers}")
    return lines


def draw(records: Records, figure: Figure) -> None:
    """Draws a line per row with a heat map per matrix: readers from top to bottom, sources from left to right."""
    grid = []
    for own in group_by(records, "row", "seed").values():
        matrices = group_by(own, "label", "side", "component", "way")
        titles = {f"{figures.short(label, 34)}\n{side} {component} {way}": each for (label, side, component, way), each in matrices.items()}
        grid.append([figures.HeatMap.of(each, title, "reader", "source", "weight") for title, each in titles.items()])
    figures.heat_maps(figure, grid, ("source", "reader"), "weight")
