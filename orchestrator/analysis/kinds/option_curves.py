"""BLEU against one option: hops of layer self-attention, recurrent steps, encoder layers.

hops: Wang et al. 2018, Fig. 3, one line per placement of the fusion. steps: Hao et al. 2019, Fig. 5, by the steps T of an attentive
recurrent encoder, one line per number of its layers (the paper has 1); T = J, as many steps as the source has words, comes last. depth: one
line per method, the part of a row's label before the first comma (`DLCL, 6 layers`). Rows without the component are baselines.
"""

from __future__ import annotations

from orchestrator.analysis.base import Subject
from orchestrator.analysis.figures import model_of
from orchestrator.analysis.option_curve import OptionCurve, Point, option_of
from orchestrator.analysis.registry import register
from orchestrator.specs.schema import ModelSpec

FUSION, RECURRENT = "mlrf-self-attention", "biarn"


def hops_of(model: ModelSpec) -> dict[str, int]:
    """Maps each side to n_hop of its layer self-attention; empty for a baseline."""
    sides = (("encoder", model.encoder.aggregation), ("decoder", model.decoder.aggregation))
    return {side: int(option_of("aggregation", component, "n_hop")) for side, component in sides if component["kind"] == FUSION}


def _by_hops(subject: Subject) -> Point | None:
    hops = hops_of(subject.spec.model)
    return ("both" if len(hops) > 1 else next(iter(hops)), max(hops.values())) if hops else None


def _by_steps(subject: Subject) -> Point | None:
    encoder = subject.spec.model.extra_encoder
    if encoder is None or encoder["kind"] != RECURRENT:
        return None
    return option_of("extra_encoder", encoder, "num_layers"), option_of("extra_encoder", encoder, "steps")


def _by_depth(subject: Subject) -> Point:
    return model_of(subject.label)[0], subject.spec.model.encoder.num_layers


HOPS = OptionCurve("hops", "hops", "sides", _by_hops, f"aggregation {FUSION}", "number of hops", "mlrf2018/table2/row9")
STEPS = OptionCurve(
    "steps", "steps", "layers", _by_steps, f"extra_encoder {RECURRENT}", "number of recurrent steps", "hao2019/table1/row1-continued"
)
DEPTH = OptionCurve("depth", "layers", "method", _by_depth, "an encoder", "encoder layers")
for curve in (HOPS, STEPS, DEPTH):
    register(curve.kind)(curve.analyse)
