"""BLEU against the number of recurrent steps T of an attentive recurrent encoder (Hao et al. 2019, Fig. 5).

Rows without `biarn` are baselines: dashed lines. T = J, as many steps as the source has words, comes last on the axis. A line for each
number of layers of the recurrence encoder (the figure has one: 1).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrator.analysis.base import Analysis, Context
from orchestrator.analysis.curve import Curve, Point, option_of

if TYPE_CHECKING:
    from orchestrator.specs.schema import ModelSpec

KIND = "biarn"


def analyse(context: Context) -> Analysis:
    """A record for each row and figure; `steps` is a number or "J", null for a baseline. UserError where no row has such an encoder."""
    return CURVE.analyse(context)


def _place(model: ModelSpec) -> Point | None:
    encoder = model.extra_encoder
    if encoder is None or encoder["kind"] != KIND:
        return None
    return option_of("extra_encoder", encoder, "num_layers"), option_of("extra_encoder", encoder, "steps")


def _legend(layers: int) -> str:
    return f"{layers}-layer BiARN"


CURVE = Curve(
    kind="steps",
    option="steps",
    group="layers",
    no_group=None,
    place=_place,
    component=f"extra_encoder {KIND}",
    varied="steps",
    axis="number of recurrent steps",
    title="BLEU by number of recurrent steps (Hao et al. 2019, Fig. 5)",
    legend=_legend,
    example="hao2019/table1/row1",
)
