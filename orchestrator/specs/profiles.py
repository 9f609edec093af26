"""Layers on a table's row: a profile, then `--set KEY=VALUE` overrides, validated like the file.

Profiles scale rows down: one factor on all widths, another corpus, fewer steps. What a table varies stays unchanged.

`smoke`: seconds on a CPU with the built-in corpus; others: real corpora at a stated reduction; none: as published.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from orchestrator.errors import UserError, for_each, raise_all
from orchestrator.paths import SEARCH_SPACES, profile_names
from orchestrator.specs import yaml_file
from orchestrator.specs.base import Natural, Positive, Strict
from orchestrator.specs.check import SECTIONS
from orchestrator.specs.components import by_kind, placed, slots
from orchestrator.specs.corpora import list_entries
from orchestrator.specs.messages import key_below, valid
from orchestrator.specs.positions import Document, KeyPath, Located, Position, nearest, shown
from orchestrator.specs.schema import RunSpec

VALID = "valid"
RATE = ("optim", "schedule", "lr")
_ELSEWHERE = {"seed": "use --seed", "init_from": "it is part of the row", "workers": "use --workers"}


class Scale(Strict):
    """A reduction of rows. data, batch, model, optim, train, decode and score merge onto the row's sections.

    width: factor on d_model, d_ff, word_dim, output_dim, and every component option `d_*` and `widths` (each item of a list).
    dropout: factor on the rates of `model.dropout`; a short training needs less.
    warmup, log_gradient_norms: upper bounds of the row's values. optim.restart: merges onto the second phase of rows that have one.
    A smaller width and a shorter warm-up would raise noam's peak rate, d_model^-0.5 * warmup^-0.5; its `factor` keeps that peak.
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
    decode: dict[str, Any] = Field(default_factory=dict)
    score: dict[str, Any] = Field(default_factory=dict)


class Profile(Scale):
    """A scale of all rows.

    extends: a profile whose keys this one starts from. failed_below: replaces the bound of rows that state one. corpora: other scales for
    rows published on a given corpus, because models for small corpora are already small.
    """

    extends: str | None = None
    failed_below: Annotated[float, Field(ge=0, le=100)] | None = None
    corpora: dict[str, Scale] = Field(default_factory=dict)

    def of(self, corpus: str) -> "Profile":
        """Returns the profile for rows that are published on this corpus."""
        own = self.corpora.get(corpus, Scale()).model_dump(exclude_unset=True)
        return self.model_copy(update=own | {name: getattr(self, name) | own[name] for name in own.keys() & set(SECTIONS)})


def load(name: str, where: str = "--profile", chain: tuple[Path, ...] = ()) -> tuple[Profile, Document]:
    """Loads a profile, by its name or from a file `*.yaml`, and its data. Raises UserError for an unknown or malformed profile.

    where: what names the profile. chain: the files that extend it.
    """
    own = name.endswith(".yaml")
    if not own and name not in profile_names():
        raise UserError(f"{where} {shown(name)}: unknown profile; {nearest(name, profile_names())}")
    path = Path(name) if own else SEARCH_SPACES / "profiles" / f"{name}.yaml"
    document = yaml_file.load(path)
    if (parent := _parent(document, path)) is not None:
        if path.resolve() in chain:
            raise UserError(document.line(("extends",), f"found {shown(parent)}; expected a profile that does not extend this one in turn"))
        whole = load(parent, f"{document.at(('extends',)).where}: extends:", (*chain, path.resolve()))[1].merged(document)
        document = Document(document.file, whole.data)
        document.positions = whole.positions
    profile, known = valid(document, Profile), list_entries()
    for corpus in (corpus for corpus in profile.corpora if corpus not in known):
        document.wrong(("corpora", corpus), f"unknown corpus; {nearest(corpus, known)}")
    raise_all(document.problems)
    return profile, document


def _parent(document: Document, path: Path) -> str | None:
    """Returns the name or the file of the profile that the profile in `path` extends."""
    parent = document.data.get("extends") if isinstance(document.data, dict) else None
    return (str(path.parent / parent) if parent.endswith(".yaml") else parent) if isinstance(parent, str) else None


def files(path: Path) -> list[Path]:
    """Returns the file of a profile and the files that it extends."""
    parent = _parent(yaml_file.load(path), path)
    return [path, *(files(Path(parent)) if parent is not None and parent.endswith(".yaml") else [])]


def apply(row: Located, profile: Profile, document: Document, rate: float = 1.0) -> Located:
    """Returns a row at the profile's scale, and changes `row`, which must be valid and written out. rate: factor of its learning rate."""
    data = row.data
    corpus = str(data["data"]["corpus"])
    profile = profile.of(corpus)
    width = data["model"]["d_model"]
    _scale(data["model"], profile.width)
    data["model"]["dropout"] = {name: round(rate * profile.dropout, 6) for name, rate in data["model"]["dropout"].items()}
    optim = data["optim"]
    for schedule in [optim["schedule"]] + ([optim["restart"]["schedule"]] if optim["restart"] else []):
        shorter = schedule["warmup"] if profile.warmup is None else min(schedule["warmup"], profile.warmup)
        ratio = data["model"]["d_model"] / width * max(1, shorter) / max(1, schedule["warmup"])
        if schedule["kind"] == "noam" and ratio != 1:
            schedule["factor"] = round(schedule["factor"] * ratio**0.5, 6)
        schedule["warmup"] = shorter
    if profile.log_gradient_norms is not None:
        data["train"]["log_gradient_norms"] = min(data["train"]["log_gradient_norms"], profile.log_gradient_norms)
    if profile.batch and optim["restart"] and optim["restart"]["batch"]:
        optim["restart"]["batch"] = {**optim["restart"]["batch"], **profile.batch}
    scaled = Located(data, row.home, row.positions).merged(Located.of(document, (), lambda key: key in SECTIONS))
    if corpus in document.data.get("corpora", {}):
        scaled = scaled.merged(Located.of(document, ("corpora", corpus), lambda key: key in SECTIONS))
    if rate != 1 and (at := scaled.at(RATE)) != row.at(RATE):
        lr = round(scaled.data["optim"]["schedule"]["lr"] * rate, 12)
        scaled = scaled.merged(Located({"optim": {"schedule": {"lr": lr}}}, scaled.home, {RATE: at}))
    if optim["restart"] is None:
        scaled.data["optim"]["restart"] = None
    scaled.data["score"]["test"] = test_set(data["score"]["test"], profile.score.get("test"))
    return scaled


def test_set(own: str, of_profile: str | None) -> str:
    """Returns the test set of a row under a profile. `valid` is kept because every corpus has it; others may be specific to a corpus."""
    return own if of_profile is None or own == VALID else of_profile


def _scale(model: dict[str, Any], factor: float) -> None:
    def scaled(width: Any, least: int = 4) -> Any:
        if isinstance(width, list):
            return list(map(scaled, width))
        return max(least, round(width * factor)) if type(width) is int else width

    heads = model["num_heads"]
    model["d_model"] = max(1, round(model["d_model"] * factor / (2 * heads))) * 2 * heads  # an even head size
    model |= {"d_ff": scaled(model["d_ff"], 8)} | {name: scaled(model[name]) for name in ("word_dim", "output_dim")}
    for _, _, component in slots(model):
        component |= {name: scaled(value) for name, value in component.items() if name == "widths" or name.startswith("d_")}


@dataclass(frozen=True)
class Override:
    """An override: `path` into the spec, its value, and `text` as the user wrote it."""

    path: tuple[str, ...]
    value: Any
    text: str

    @property
    def position(self) -> Position:
        return Position(f"--set {shown(self.text, 120)}", ())


def parse_sets(sets: list[str]) -> list[Override]:
    """Parses the values of `--set`. Raises UserError with one line per malformed value."""
    found: dict[tuple[str, ...], Override] = {}
    for override in for_each(_one, sets):
        first = found.setdefault(override.path, override)
        if first.value != override.value:
            raise UserError(override.position.line(f"found --set {shown(first.text, 120)} too; expected one value"))
    return list(found.values())


def apply_sets(row: Located, overrides: list[Override]) -> Located:
    """Applies overrides to a row in any order: a kind before its options, and a section before its keys, which win.

    `model.regularizers.KIND.OPTION` is of the list's item of that kind.
    """
    for override in sorted(overrides, key=lambda each: 2 * len(each.path) - (each.path[-1] == "kind")):
        path = override.path
        written = [path[:length] for length in range(2, len(path) + 1)] or [path]  # a misspelt key need not be the last
        positions: dict[KeyPath, Position] = {each: Position(override.position.where, each) for each in written}
        row = row.merged(by_kind(Located(placed({}, path, override.value), row.home, positions), row.data))
    return row


def for_parent(overrides: list[Override], row: dict[str, Any], parent: dict[str, Any]) -> list[Override]:
    """Returns the overrides that also apply to the parent (`init_from`): all except those of a component whose kind differs there."""
    own, its = ({path: part.get("kind") for path, _, part in slots(spec.get("model")) if isinstance(part, dict)} for spec in (row, parent))
    differing = [path[:1] if path[0] == "regularizers" else path for path in own | its if own.get(path) != its.get(path)]
    return [o for o in overrides if o.path[0] != "model" or not any(o.path[1 : 1 + len(path)] == path for path in differing)]


def _one(text: str) -> Override:
    key, equals, value = text.partition("=")
    key = key.strip()
    where = f"--set {shown(text, 120)}"
    if not equals or not key or not value.strip():
        raise UserError(f"{where}: expected KEY=VALUE, as in --set model.d_model=256")
    path = tuple(key.split("."))
    if path[0] in _ELSEWHERE:
        raise UserError(f"{where}: {path[0]} cannot be set here: {_ELSEWHERE[path[0]]}")
    if path[0] not in SECTIONS or not all(path):
        raise UserError(f"{where}: {shown(key)}: unknown key; {nearest(path[0], SECTIONS, key_below(RunSpec, path))}")
    document = yaml_file.parse(value, where)
    return Override(path, document.data, text)
