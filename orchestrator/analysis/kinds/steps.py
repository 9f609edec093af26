"""BLEU by number of recurrent steps T of an attentive recurrent encoder (Hao et al. 2019, Fig. 5).

Rows without `biarn` are baselines. T = J, as many steps as the source has words, comes last on the axis. There is one line per number of
layers of the recurrence encoder (the paper's figure has one line, for 1 layer).
"""

from __future__ import annotations

from orchestrator.analysis.base import Subject
from orchestrator.analysis.option_curve import OptionCurve, Point, option_of
from orchestrator.analysis.registry import register

KIND = "biarn"


def _point(subject: Subject) -> Point | None:
    encoder = subject.spec.model.extra_encoder
    if encoder is None or encoder["kind"] != KIND:
        return None
    return option_of("extra_encoder", encoder, "num_layers"), option_of("extra_encoder", encoder, "steps")


CURVE = OptionCurve(
    kind="steps",
    option="steps",
    group="layers",
    point=_point,
    component=f"extra_encoder {KIND}",
    axis="number of recurrent steps",
    example="hao2019/table1/row1-continued",
)
analyse = register("steps")(CURVE.analyse)
