"""Several models of one configuration as one: parameters stacked along a first dimension, positions of every run packed in a row.

Shapes: R runs, N packed positions of a side, D d_model, B_r, S_r, T_r a run's own sentences and lengths, H heads, K width of a head.

Run r's [B_r, T_r, D] states are the first B_r * T_r rows of slice r of one [R, N, D] tensor, N the largest of them, so that batches of
other shapes cost next to no padding. All that works on each position by itself runs once for all runs; attention (the only place where
positions meet) runs on each run's own [B_r, T_r] block. Rows behind a run's last one hold finite numbers whose gradients are zero.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from models import stacked
from models.fused_sides import Side, Sides
from models.seams import Component
from models.site import Flow, History
from models.transformer import PAD, Output, Transformer


def unfusable(model: Transformer) -> str | None:
    """Why models of this configuration cannot be fused, in one line; None where they can. Works on the meta device."""
    for seam, part in (("extra_encoder", model.extra_encoder), ("context", model.encoder.context)):
        if part is not None:
            return f"{seam} {part.kind}: not fused"
    if model.bridge.by_sentence:
        return f"bridge {model.bridge.kind}: not fused"
    meeting = dict.fromkeys(module.kind for module in model.modules() if isinstance(module, Component) and not module.packable)
    if meeting:
        return f"{', '.join(meeting)}: positions meet outside attention"
    for path, module in model.named_modules():
        owns = next(module.parameters(recurse=False), None) is not None
        if (owns or isinstance(module, tuple(stacked.FORMS))) and stacked.form(module) is None:
            return f"{path}: {type(module).__name__} has no stacked form"
    return None


class Fused:
    """R models in training. Their parameters become views of the stacked ones, so that each goes on as a model of its own:
    optimizer, validation and checkpoints work on the models, one pass forward and backward works for all."""

    def __init__(self, models: Sequence[Transformer]) -> None:
        self.models = list(models)
        self.packing = Sides()
        self.network = copy.deepcopy(models[0]).train()
        self.network.recompute(False)  # it would draw other dropout masks from the runs' generators
        names = dict(self.network.named_parameters())
        with torch.no_grad():
            own = [dict(model.named_parameters()) for model in models]
            self.weights = {name: nn.Parameter(torch.stack([parameters[name] for parameters in own])) for name in names}
            for name, weight in self.weights.items():
                for parameters, view in zip(own, weight.data.unbind(0), strict=True):
                    parameters[name].data = view
        stacked.transform(self.network, {id(parameter): self.weights[name] for name, parameter in names.items()}, self.packing)

    def __call__(self, sources: Sequence[Tensor], targets: Sequence[Tensor], generators: Sequence[torch.Generator]) -> list[Output]:
        """Ids [B_r, S_r] and [B_r, T_r] of each run (B_r = 0 where it takes no part) -> what `Transformer.forward` returns for each.

        generators: of each run's dropout masks; on a CPU they are the masks its solo run draws.
        """
        net = self.network
        src, tgt = (
            Side(ids, [net._packing(side, each != PAD) if len(each) else None for each in ids])
            for side, ids in (("encoder", sources), ("decoder", targets))
        )
        self.packing.begin(src, tgt, sources, targets, generators)
        flow = Flow(mask=src.mask, bias=src.mask)
        encoded, encoder = net.encoder(net.src_embedding(src.ids), flow)
        memories = net.bridge(encoded, encoder, None, flow)
        hidden, decoder = net.decoder(net.tgt_embedding(tgt.ids), Flow(bias=tgt.mask, causal=True), memories)
        encoders, decoders = (_histories(h, side, bool(net.regularizers)) for h, side in ((encoder, src), (decoder, tgt)))
        parts = zip(tgt.split(net.before_output(hidden)), encoders, src.masks, decoders, tgt.masks, strict=True)
        return [Output(*part) for part in parts]

    def gather_gradients(self) -> None:
        """Give each model its slice of the stacked gradients, added to what the loss left on it."""
        for name, weight in self.weights.items():
            if weight.grad is None:
                continue
            for model, gradient in zip(self.models, weight.grad.unbind(0), strict=True):
                parameter = model.get_parameter(name)
                parameter.grad = gradient if parameter.grad is None else parameter.grad.add_(gradient)
            weight.grad = None

    def release(self) -> None:
        """Every model gets memory of its own again."""
        for model in self.models:
            for parameter in model.parameters():
                parameter.data = parameter.data.clone()


def _histories(history: History, side: Side, layers: bool) -> list[History]:
    """Each run's own: what regularizers read, where there are any (`layers`)."""
    split = [History(h) for h in side.split(history.kept[0])]
    if layers:
        for inputs, outputs, kept in zip(history.inputs[1:], history.outputs[1:], history.kept[1:], strict=True):
            for run, x, h, k in zip(split, side.split(inputs), side.split(outputs), side.split(kept), strict=True):
                run.inputs.append(x)
                run.outputs.append(h)
                run.kept.append(k)
    return split
