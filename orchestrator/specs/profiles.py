"""Profiles scale rows down: one factor on all widths, another corpus, fewer steps. What a table varies stays unchanged.

`smoke`: seconds on a CPU with the built-in corpus; `mini` and `gpu`: real corpora at a stated reduction; no profile: as published.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError

from orchestrator.errors import UserError
from orchestrator.paths import SEARCH_SPACES
from orchestrator.specs import yaml_file
from orchestrator.specs.base import Natural, Positive, Strict
from orchestrator.specs.components import slots
from orchestrator.specs.corpora import list_entries
from orchestrator.specs.messages import problems_of
from orchestrator.specs.positions import Document, Located, nearest, shown

VALID = "valid"
SECTIONS = ("data", "batch", "model", "optim", "train", "decode", "score")


class Scale(Strict):
    """A reduction of rows. data, batch, model, optim and train merge onto the row's sections.

    width: factor on d_model, d_ff, word_dim, output_dim, and every component option `d_*` and `widths` (each item of a list).
    dropout: factor on the rates of `model.dropout`; a short training needs less.
    warmup, log_gradient_norms: upper bounds of the row's values. optim.restart: merges onto the second phase of rows that have one.
    A smaller width and a shorter warm-up would raise noam's peak rate, d_model^-0.5 * warmup^-0.5; its `factor` is adjusted to keep the
    published peak.
    """

    width: Annotated[float, Field(gt=0, le=4)] = 1.0
    dropout: Annotated[float, Field(gt=0, le=1)] = 1.0
    warmup: Natural | None = None
    log_gradient_norms: Positive | None = None
    data: dict[str, Any] = Field(default_factory=dict)
    batch: dict[str, Any] = Field(default_factory=dict)
    model: dict[str, Any] = Field(default_factory=dict)
    optim: dict[str, Any] = Field(default_factory=dict)
    train: dict[str, Any] = Field(default_factory=dict)


class Profile(Scale):
    """A scale, with decode and score sections that also merge onto the row's.

    failed_below: replaces the bound of rows that state one. corpora: other scales for rows published on a given corpus, because models
    for small corpora are already small.
    """

    decode: dict[str, Any] = Field(default_factory=dict)
    score: dict[str, Any] = Field(default_factory=dict)
    failed_below: Annotated[float, Field(ge=0, le=100)] | None = None
    corpora: dict[str, Scale] = Field(default_factory=dict)

    def of(self, corpus: str) -> Profile:
        """Returns the profile for rows that are published on this corpus."""
        own = self.corpora.get(corpus, Scale()).model_dump(exclude_unset=True)
        sections = {name: getattr(self, name) | own.get(name, {}) for name in ("data", "batch", "model", "optim", "train")}
        return self.model_copy(update=own | sections)


def names() -> list[str]:
    """Returns the names of all profiles."""
    return sorted(path.stem for path in (SEARCH_SPACES / "profiles").glob("*.yaml"))


def load(name: str) -> tuple[Profile, Document]:
    """Loads a profile, by its name or from a file `*.yaml`, and its document. Raises UserError for an unknown or malformed profile."""
    own = name.endswith(".yaml")
    if not own and name not in names():
        raise UserError(f"--profile {shown(name)}: unknown profile; {nearest(name, names())}")
    document = yaml_file.load(Path(name) if own else SEARCH_SPACES / "profiles" / f"{name}.yaml")
    try:
        profile = Profile.model_validate(document.data)
    except ValidationError as error:
        raise UserError(*(document.at(p.path).line(p.message) for p in problems_of(error, Profile))) from None
    known = list_entries()
    if unknown := [corpus for corpus in profile.corpora if corpus not in known]:
        raise UserError(*(document.at(("corpora", corpus)).line(f"unknown corpus; {nearest(corpus, known)}") for corpus in unknown))
    return profile, document


def apply(row: Located, profile: Profile, document: Document) -> Located:
    """Returns a row at the profile's scale, and changes `row`, which must be valid and fully written out."""
    data = row.data
    corpus = data["data"]["corpus"]
    corpus = corpus if isinstance(corpus, str) else ""
    profile = profile.of(corpus)
    width = data["model"]["d_model"]
    _scale(data["model"], profile.width)
    data["model"]["dropout"] = {name: round(rate * profile.dropout, 6) for name, rate in data["model"]["dropout"].items()}
    optim = data["optim"]
    if profile.warmup is not None:
        for schedule in [optim["schedule"]] + ([optim["restart"]["schedule"]] if optim["restart"] else []):
            shorter = min(schedule["warmup"], profile.warmup)
            if schedule["kind"] == "noam" and shorter > 0:
                ratio = data["model"]["d_model"] / width * shorter / schedule["warmup"]
                schedule["factor"] = round(schedule["factor"] * ratio**0.5, 6)
            schedule["warmup"] = shorter
    if profile.log_gradient_norms is not None:
        data["train"]["log_gradient_norms"] = min(data["train"]["log_gradient_norms"], profile.log_gradient_norms)
    if profile.batch and optim["restart"] and optim["restart"]["batch"]:
        optim["restart"]["batch"] = {**optim["restart"]["batch"], **profile.batch}
    scaled = Located(data, row.home, row.positions).merged(Located.of(document, (), lambda key: key in SECTIONS))
    if corpus in document.data.get("corpora", {}):
        scaled = scaled.merged(Located.of(document, ("corpora", corpus), lambda key: key in SECTIONS))
    if optim["restart"] is None:
        scaled.data["optim"]["restart"] = None
    scaled.data["score"]["test"] = test_set(data["score"]["test"], profile.score.get("test"))
    return scaled


def test_set(own: str, of_profile: str | None) -> str:
    """Returns the test set of a row under a profile. `valid` is kept because every corpus has it; others may be specific to a corpus."""
    return own if of_profile is None or own == VALID else of_profile


def _scale(model: dict[str, Any], factor: float) -> None:
    heads = model["num_heads"]
    model["d_model"] = max(1, round(model["d_model"] * factor / (2 * heads))) * 2 * heads  # an even head size
    model["d_ff"] = max(8, round(model["d_ff"] * factor))
    for name in ("word_dim", "output_dim"):
        if model.get(name) is not None:
            model[name] = _narrower(model[name], factor)
    for _, _, component in slots(model):
        for name, value in component.items():
            if name.startswith("d_") and isinstance(value, int) and not isinstance(value, bool):
                component[name] = _narrower(value, factor)
            elif name == "widths":
                component[name] = [_narrower(v, factor) for v in value] if isinstance(value, list) else _narrower(value, factor)


def _narrower(width: int, factor: float) -> int:
    return max(4, round(width * factor))
