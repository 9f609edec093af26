"""BLEU by number of hops of layer self-attention (Wang et al. 2018, Fig. 3), with one line per placement of the fusion.

Rows without `mlrf-self-attention` are baselines.
"""

from __future__ import annotations

from orchestrator.analysis.base import Subject
from orchestrator.analysis.option_curve import OptionCurve, Point, option_of
from orchestrator.analysis.registry import register
from orchestrator.specs.schema import ModelSpec

KIND = "mlrf-self-attention"


def hops_of(model: ModelSpec) -> dict[str, int]:
    """Maps each side to n_hop of its layer self-attention; empty for a baseline."""
    sides = (("encoder", model.encoder.aggregation), ("decoder", model.decoder.aggregation))
    return {side: int(option_of("aggregation", component, "n_hop")) for side, component in sides if component["kind"] == KIND}


def _point(subject: Subject) -> Point | None:
    hops = hops_of(subject.spec.model)
    return ("both" if len(hops) > 1 else next(iter(hops)), max(hops.values())) if hops else None


CURVE = OptionCurve(
    kind="hops",
    option="hops",
    group="sides",
    point=_point,
    component=f"aggregation {KIND}",
    axis="number of hops",
    example="mlrf2018/table2/row9",
)
analyse = register("hops")(CURVE.analyse)
