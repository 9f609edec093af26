"""What each method learned to read of the layers below.

exploitation: use of each input by each aggregation node (Dou et al. 2018, section 4.4, Eq. 11, Fig. 5). W1 of a node is split into the d
columns of each input: score_j = sum |W1_j| / sum_i sum |W1_i|; the scores of a node sum to 1. They use the row's decoding weights.

layer-weights: weights of connections, residuals, shared values and bridges, side by side. The numbers are a class's own `weights`. Those
that depend on the token are means over the tokens of test pairs, teacher forced on the reference. Of a residual with streams that are kept
and written, way `sum` has how much of what each sub-layer gave (h_0 first) is in what each sub-layer reads, the streams multiplied out;
`spread` is how far streams are from their mean, as a share of their size.

Shapes: T tokens, n streams, J sources, M sub-layers of a stack.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from math import isnan
from typing import Any, Literal

import pandas as pd
import torch
from matplotlib.figure import Figure
from torch import Tensor

from models.plain import SubLayer
from models.seams import Component, Residual
from models.stack import Stack
from models.transformer import Transformer, build
from orchestrator.analysis import figures
from orchestrator.analysis.base import Analysis, AnalysisContext, Records, Subject, register, table_of
from orchestrator.data.subword import BOS
from orchestrator.decoding.translate import pad
from orchestrator.specs.schema import ModelSpec

SENTENCES = 100
"""Of the test set, over which means are taken."""
Matrix = dict[int, list[float]]
"""Reader (layer or sub-layer, from 1) -> its weights, the lowest source first."""
Found = dict[tuple[str, str, str], Matrix]
"""By side, component and way."""


@register("exploitation", options={"side": (Literal["encoder", "decoder"], "encoder")}, needs_weights=True)
def exploitation(context: AnalysisContext) -> Analysis:
    """Returns one record per row, node and input; `even` is 1/n for a node with n inputs. Raises UserError if no row has such a node."""
    records, notes = context.each_row(_nodes_of_row)
    frame = pd.DataFrame(records)
    uneven = (frame.score - frame.even).abs().groupby(frame.row, sort=False).mean().to_frame("distance")
    return Analysis(records, _draw_nodes, notes, table_of("mean distance of a share from even use:", uneven, "{:.4f}"))


def _nodes_of_row(context: AnalysisContext, subject: Subject, notes: list[str]) -> Records:
    side = context.options["side"]
    weights = context.store(subject).weights(subject.spec.decode.checkpoint)
    records: Records = []
    for node, (inputs, name) in enumerate(nodes(subject.spec.model, side), start=1):
        even = round(1 / len(inputs), 6)
        shares = dict(zip(inputs, scores(weights[f"{name}.inner.weight"], len(inputs)), strict=True))
        # as in the paper's figure: layers from the highest, then the node below
        for position, label in enumerate(sorted(inputs, key=lambda label: (label[0] == "G", -int(label[1:]))), start=1):
            columns = subject.columns | {"side": side, "node": node, "position": position}
            records.append(columns | {"input": label, "score": round(shares[label], 6), "even": even})
    if not records:
        notes.append(f"{subject.row.id}: its {side} has no aggregation node with a feed-forward network; left out")
    return records


def scores(w1: Tensor, num_inputs: int) -> list[float]:
    """Computes Eq. 11 for W1 [4d, n d]: n shares that sum to 1."""
    sums = torch.stack([part.double().abs().sum() for part in w1.chunk(num_inputs, dim=1)])
    return [float(share) for share in sums / sums.sum()]


def nodes(model: ModelSpec, side: str) -> Iterator[tuple[list[str], str]]:
    """Yields (inputs in the order of W1's columns, module name) for each node of a stack, lowest first.

    hierarchical: H{2i-1}, H{2i}, G{i-1} (models/connections/dense.py). iterative: H{l}, G{l-1}; the first node reads H2, H1.
    """
    config = model.encoder if side == "encoder" else model.decoder
    with torch.device("meta"):  # only the structure; widths come from the weights
        built = build(model.model_dump(), 8, 8)
    stack = getattr(built, side)
    if config.connection["kind"] == "hierarchical":
        for i, node in enumerate(stack.connection.nodes, start=1):
            if not node.attends:
                yield [f"H{2 * i - 1}", f"H{2 * i}", *([f"G{i - 1}"] if i > 1 else [])], f"{side}.connection.nodes.{i - 1}"
    if config.aggregation["kind"] == "iterative":
        for l, node in enumerate(stack.aggregation.nodes, start=2):
            if not node.attends:
                yield [f"H{l}", "H1" if l == 2 else f"G{l - 1}"], f"{side}.aggregation.nodes.{l - 2}"


def _draw_nodes(figure: Figure, records: Records) -> None:
    """Draws one map per row: nodes from top to bottom, the lowest last, their inputs from left to right.

    The colour is the share relative to even use, so that nodes with two and with three inputs are comparable; maps share one scale.
    """
    frame = pd.DataFrame(records)
    frame["ratio"] = frame.score / frame.even
    frame["text"] = frame.input + frame.score.map("\n{:.3f}".format)
    maps = []
    for (_, label), own in frame.groupby(["row", "label"], sort=False):
        ratios, texts = (own.pivot(index="node", columns="position", values=name).iloc[::-1] for name in ("ratio", "text"))
        maps.append(figures.HeatMap(figures.short(label), ratios, texts.fillna("")))
    spread = max(0.1, (frame.ratio - 1).abs().max())  # small differences stay pale
    labels = ("input of the node, its share", f"node of the {records[0]['side']}")
    figures.heat_maps(figure, [maps], labels, "share / even share", (1 - 1.4 * spread, 1 + 1.4 * spread, "RdBu_r"), cell=0.55)


@register("layer-weights", needs_weights=True)
def layer_weights(context: AnalysisContext) -> Analysis:
    """Returns one record per reader and source. Raises UserError if no row has such weights."""
    records, notes = context.each_row(_weights_of_row)
    readers = pd.DataFrame(records).groupby(["row", "side", "component", "way", "reader"], sort=False).weight.agg(["first", "last"])
    means = readers.groupby(["row", "side", "component", "way"], sort=False).mean()
    return Analysis(records, _draw_weights, notes, table_of("weight of the lowest and of the newest source, mean over readers:", means))


def _weights_of_row(context: AnalysisContext, subject: Subject, notes: list[str]) -> Records:
    prepared, test = context.prepared(subject), subject.spec.score.test
    sources = prepared.encode(prepared.sources(test)[:SENTENCES])
    targets = prepared.encode(prepared.references(test)[0][:SENTENCES], "tgt")
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
    """The weights of every component that has some, in the order of the model: encoder, bridge, decoder. pairs: ids without EOS."""
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
            model.decode(torch.tensor([[BOS, *target]]), model.encode(pad([source])))
            count = len(source) + 1 if stack is model.encoder else len(target) + 1
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


def _draw_weights(figure: Figure, records: Records) -> None:
    """Draws a line per row with a heat map per matrix: readers from top to bottom, sources from left to right."""
    frame, grid = pd.DataFrame(records), []
    for _, of_row in frame.groupby("row", sort=False):
        matrices = of_row.groupby(["label", "side", "component", "way"], sort=False)
        titles = ((f"{figures.short(label, 34)}\n{' '.join(names)}", own) for (label, *names), own in matrices)
        grid.append([figures.HeatMap(title, own.pivot(index="reader", columns="source", values="weight")) for title, own in titles])
    figures.heat_maps(figure, grid, ("source", "reader"), "weight")
