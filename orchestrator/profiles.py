"""Profiles: one factor on every width, another corpus and fewer steps. The variant, the axis that a table varies, is never touched.

`smoke`: seconds on a CPU with the built-in corpus; `cpu`, `gpu`: a real corpus at a stated reduction; none: as published.
"""

from __future__ import annotations

import copy
from typing import Annotated, Any

from pydantic import Field, ValidationError

from orchestrator import yaml_loader
from orchestrator.components import slots
from orchestrator.errors import UserError
from orchestrator.marked import Marked
from orchestrator.paths import SEARCH_SPACES
from orchestrator.places import Document, nearest, shown
from orchestrator.problems import problems_of
from orchestrator.spec import Natural, Positive, Strict

SECTIONS = ("data", "batch", "train", "decode", "score")


class Profile(Strict):
    """`width` multiplies d_model, d_ff and every component option named `d_*`; the other sections merge onto the row's.

    `warmup` (at most so many steps) and `restart_after_steps` act on the schedules and the restart that the row has. A shorter warm-up
    would raise noam's highest rate, d_model^-0.5 * warmup^-0.5: the factor makes up for it, so that the rate depends on the width alone.
    """

    width: Annotated[float, Field(gt=0, le=4)] = 1.0
    warmup: Natural | None = None
    restart_after_steps: Positive | None = None
    data: dict[str, Any] = Field(default_factory=dict)
    batch: dict[str, Any] = Field(default_factory=dict)
    train: dict[str, Any] = Field(default_factory=dict)
    decode: dict[str, Any] = Field(default_factory=dict)
    score: dict[str, Any] = Field(default_factory=dict)


def names() -> list[str]:
    return sorted(path.stem for path in (SEARCH_SPACES / "profiles").glob("*.yaml"))


def load(name: str) -> tuple[Profile, Document]:
    """UserError for an unknown or malformed profile."""
    if name not in names():
        raise UserError(f"--profile {shown(name)}: unknown profile; {nearest(name, names())}")
    document = yaml_loader.load(SEARCH_SPACES / "profiles" / f"{name}.yaml")
    try:
        return Profile.model_validate(document.data), document
    except ValidationError as error:
        raise UserError(*(document.mark(p.path).line(p.message) for p in problems_of(error, Profile))) from None


def apply(row: Marked, profile: Profile, document: Document) -> Marked:
    """A valid, fully written-out row at the profile's scale."""
    data = copy.deepcopy(row.data)
    _scale(data["model"], profile.width)
    optim = data["optim"]
    if profile.warmup is not None:
        for schedule in [optim["schedule"]] + ([optim["restart"]["schedule"]] if optim["restart"] else []):
            shorter = min(schedule["warmup"], profile.warmup)
            if schedule["kind"] == "noam" and shorter > 0:
                schedule["factor"] = round(schedule["factor"] * (shorter / schedule["warmup"]) ** 0.5, 6)
            schedule["warmup"] = shorter
    if profile.restart_after_steps is not None and optim["restart"]:
        optim["restart"] |= {"after_steps": profile.restart_after_steps, "after_epochs": None}
    if profile.batch and optim["restart"] and optim["restart"]["batch"]:
        optim["restart"]["batch"] = {**optim["restart"]["batch"], **profile.batch}
    return Marked(data, row.home, row.marks).merged(Marked.of(document, (), lambda key: key in SECTIONS))


def _scale(model: dict[str, Any], factor: float) -> None:
    heads = model["num_heads"]
    model["d_model"] = max(1, round(model["d_model"] * factor / (2 * heads))) * 2 * heads  # an even head size
    model["d_ff"] = max(8, round(model["d_ff"] * factor))
    for _, _, component in slots(model):
        for name, value in component.items():
            if name.startswith("d_") and isinstance(value, int) and not isinstance(value, bool):
                component[name] = max(4, round(value * factor))
