"""BLEU by number of encoder layers, with one line per method: the part of a row's label before the first comma (`DLCL, 6 layers`).

Reads the ledger alone; `degradation` translates training pairs too, and needs weights.
"""

from __future__ import annotations

from orchestrator.analysis.base import Subject
from orchestrator.analysis.figures import model_of
from orchestrator.analysis.option_curve import OptionCurve, Point
from orchestrator.analysis.registry import register


def _point(subject: Subject) -> Point:
    return model_of(subject.label)[0], subject.spec.model.encoder.num_layers


CURVE = OptionCurve(
    kind="depth",
    option="layers",
    group="method",
    point=_point,
    component="an encoder",
    axis="encoder layers",
)
analyse = register("depth")(CURVE.analyse)
