"""BLEU against the number of hops of layer self-attention (Wang et al. 2018, Fig. 3).

Rows without `mlrf-self-attention` are baselines: dashed lines. A line for each placement of the fusion.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrator.analysis.base import Analysis, Context
from orchestrator.analysis.curve import Curve, Point, option_of

if TYPE_CHECKING:
    from orchestrator.specs.schema import ModelSpec

KIND = "mlrf-self-attention"


def analyse(context: Context) -> Analysis:
    """A record for each row and figure; `hops` is null for a baseline. UserError where no row has such an aggregation."""
    return CURVE.analyse(context)


def hops_of(model: ModelSpec) -> dict[str, int]:
    """Side -> n_hop of its layer self-attention, written out or by default; empty for a baseline."""
    sides = (("encoder", model.encoder.aggregation), ("decoder", model.decoder.aggregation))
    return {side: int(option_of("aggregation", component, "n_hop")) for side, component in sides if component["kind"] == KIND}


def _place(model: ModelSpec) -> Point | None:
    hops = hops_of(model)
    return ("both" if len(hops) > 1 else next(iter(hops)), max(hops.values())) if hops else None


def _legend(side: str) -> str:
    return f"fusion in {'both stacks' if side == 'both' else f'the {side}'}"


CURVE = Curve(
    kind="hops",
    option="hops",
    group="sides",
    no_group="none",
    place=_place,
    component=f"aggregation {KIND}",
    varied="n_hop",
    axis="number of hops",
    title="BLEU by number of hops (Wang et al. 2018, Fig. 3)",
    legend=_legend,
    example="mlrf2018/table2/row9",
)
