"""The three keys of a run: a sha256 over exactly what determines its result bit by bit.

    train   model, optimisation, batch, length, precision, threads, seed, training data, parent's weights, component versions
    decode  train + choice of checkpoint, search and text of the test split
    score   decode + metric and its options

A tuned length penalty has a fourth key, `tune` (train + search + text of the validation split + metric), which enters its decode key.

Equal meaning gives equal keys: the order of mappings, 1 or 1.0, tuples or lists, and explicit or omitted defaults do not matter.
Paths, worker counts, row names, addresses and log settings never enter. Text and preprocessing enter through the manifest.
"""

import copy
import functools
import inspect
import json
import operator
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from models.registry import REGISTRIES
from orchestrator.errors import UserError
from orchestrator.files.canonical import canonical, digest
from orchestrator.specs import public_tests
from orchestrator.specs.bleu_tokenizer import score_fields
from orchestrator.specs.components import slots
from orchestrator.specs.schema import ModelSpec, RunSpec, ScoreSpec

FORMAT = 1

_FIELDS = json.loads(Path(__file__).with_name("grown.json").read_text())

GROWN: dict[str, Any] = _FIELDS["grown"]
"""Fields added after FORMAT 1 (`model.max_positions`, `connection/dense.mode`, ...) and the values that older runs effectively had.

The key leaves out a field with this value, so a new option does not change the keys of finished runs."""

FORMER: dict[str, dict[str, Any]] = _FIELDS["former"]
"""Options that were removed from components and `batch` sections, and the values that apply now. Recorded specs and their digests still
contain them, and keys those of components."""

LATER: list[str] = _FIELDS["later"]
"""Fields of GROWN added after the first results were shipped. Digests of whole specs (for example of looks) also omit their old values."""


@dataclass(frozen=True)
class Keys:
    """Full hex digests. All None while the data is absent (status `needs-data`)."""

    train: str | None
    decode: str | None
    score: str | None
    tune: str | None = None

    def as_dict(self) -> dict[str, str | None]:
        """Returns the keys as a mapping, without `tune` if nothing is tuned."""
        return {name: key for name, key in asdict(self).items() if name != "tune" or key is not None}


def keys_of(spec: RunSpec, manifest: Mapping[str, Any] | None, parent_train_key: str | None) -> Keys:
    """Returns the keys of a resolved row. `manifest`: manifest of its data, None while absent. `parent_train_key`: of the `init_from` row.

    ValueError if only one of `init_from` and the parent's key is given. UserError for an unregistered component or an absent test split.
    """
    if manifest is None:
        return Keys(None, None, None)
    if (spec.init_from is None) != (parent_train_key is None):
        raise ValueError(f"init_from is {spec.init_from!r} but the parent's train key is {parent_train_key!r}")

    meaning = {
        "format": FORMAT,
        "data": training_key(dict(manifest)),
        "batch": _dump("batch", spec.batch),
        "model": model_meaning(spec.model),
        "components": component_versions(spec.model),
        "optim": _optim_meaning(spec),
        "train": _length_meaning(spec),
        "seed": spec.seed,
        "parent": parent_train_key if spec.start in (None, "last") else [parent_train_key, spec.start],
    }
    train = digest(meaning)
    search = _dump("decode", spec.search)
    if search["length_penalty"]["kind"] == "none":
        search["length_penalty"].pop("alpha")
    about = {"format": FORMAT, "train": train, "decode": search}
    tune = None
    if spec.decode.length_penalty.alpha == "tuned":
        metric = _score_meaning(spec.score.model_copy(update={"test": "valid"}), manifest)
        del metric["test"]
        tune = digest(about | {"valid": split_key(dict(manifest), "valid"), "score": metric})
    test = [spec.score.test, split_key(dict(manifest), spec.score.test)]
    decode = digest(about | {"test": test} | ({} if tune is None else {"tune": tune}))
    score = digest({"format": FORMAT, "decode": decode, "score": _score_meaning(spec.score, manifest)})
    return Keys(train, decode, score, tune)


def external_keys(row_id: str, seed: int, score: ScoreSpec, manifest: Mapping[str, Any] | None) -> Keys:
    """Keys of the translations that another system made of a test set, kept under the address of their row. Arguments as for `keys_of`.

    The row has no training; `train` names its folder in the ledger and does not depend on the text.
    """
    train = digest({"format": FORMAT, "external": row_id, "seed": seed, "test": score.test})
    if manifest is None:
        return Keys(train, None, None)
    form = {name: manifest["preparation"][name] for name in ("tokenizer", "lowercase")}
    decode = digest({"format": FORMAT, "train": train, "test": split_key(dict(manifest), score.test), **form})
    return Keys(train, decode, digest({"format": FORMAT, "decode": decode, "score": _score_meaning(score, manifest)}))


def training_key(manifest: dict[str, Any]) -> str:
    """sha256 of what a training sees. Test sets are excluded, so that adding one retrains nothing; so are the raw references.

    `form` (how the lines are written) counts only where the Moses tokenizer would otherwise run on them again.
    """
    again = "form" in manifest and manifest["preparation"]["tokenizer"] == "moses"
    unseen = {"tests", "raw"} if again else {"tests", "raw", "form"}
    return digest({name: value for name, value in manifest.items() if name not in unseen})


def split_key(manifest: dict[str, Any], split: str) -> str:
    """sha256 of a held-out split or a test set of sacreBLEU, the input of decode and score keys beside the training. UserError else."""
    if "generator" in manifest["text"]:
        return digest([manifest["text"], split])
    known = manifest["text"] | manifest["tests"]
    if split not in known and (public := public_tests.identity(split, manifest.get("languages", ()))) is not None:
        return digest(public)
    if split not in known:
        raise UserError(f"test set {split!r} is not there; found: {', '.join(known)}")
    return digest([known[split], manifest["form"]] if "form" in manifest else known[split])


def component_versions(model: Any) -> dict[str, int]:
    """The declared version of each component class that a ModelSpec uses: `{"connection/dense": 1, ...}`."""
    used = {(registry, component["kind"]) for _, registry, component in slots(_dump("model", model))}
    return {f"{registry}/{kind}": int(_class(registry, kind).version) for registry, kind in sorted(used)}


def _optim_meaning(spec: RunSpec) -> dict[str, Any]:
    optim = _dump("optim", spec.optim)
    optim["name"] = optim.pop("kind")  # the field's name in FORMAT 1
    if spec.optim.kind == "nag":
        optim = {name: value for name, value in optim.items() if name not in ("betas", "eps")}
    optim["schedule"] = _schedule(optim["schedule"])
    if optim.get("restart"):
        optim["restart"]["schedule"] = _schedule(optim["restart"]["schedule"])
    return optim


def _length_meaning(spec: RunSpec) -> dict[str, Any]:
    train = _dump("train", spec.train)
    train.pop("log_gradient_norms")
    checkpoint_every, snapshot_every = train.pop("checkpoint_every"), train.pop("snapshot_every")
    train.pop("recompute")  # how it is computed, not what
    if train["snapshots"] > 0:
        train["snapshot_every"] = snapshot_every or checkpoint_every
    return train


def _score_meaning(score: ScoreSpec, manifest: Mapping[str, Any]) -> dict[str, Any]:
    return score_fields(_dump("score", score), score, manifest)


def _schedule(schedule: dict[str, Any]) -> dict[str, Any]:
    """Drops `factor`, which only noam uses, from other schedules."""
    return {name: value for name, value in schedule.items() if name != "factor" or schedule["kind"] == "noam"}


def model_meaning(model: ModelSpec) -> dict[str, Any]:
    """Returns the model section as plain data with the defaults of its components, without fields of GROWN at their old values."""
    found = _dump("model", model)
    for path, registry, component in list(slots(found)):
        section: Any = functools.reduce(operator.getitem, path[:-1], found)  # type: ignore[arg-type]
        section[path[-1]] = _with_defaults(registry, component)
    return found


def recorded(spec: RunSpec) -> dict[str, Any]:
    """Returns the spec as plain data, without its seed and the fields of LATER at their old values. Records of claims hold its digest."""

    def kept(section: dict[str, Any], path: str = "") -> dict[str, Any]:
        known = {name: value for name, value in section.items() if path + name not in LATER or not _as_before(path + name, value)}
        return {name: kept(value, f"{path}{name}.") if isinstance(value, dict) else value for name, value in known.items()}

    data = kept(spec.model_dump(mode="json", exclude={"seed"}))
    for name, part in _parts(data):
        part |= FORMER.get(name, {}) | part
    return data


def without_former(spec: Any) -> Any:
    """Returns a recorded spec in the current form: with options added since, and without removed ones at the values that apply."""
    spec = copy.deepcopy(spec)  # records in the cache are shared
    for name, part in _parts(spec):
        for field, value in GROWN.items():
            if field.startswith(f"{name}."):
                part.setdefault(field[len(name) + 1 :], value)
        for option in [option for option, value in FORMER.get(name, {}).items() if part.get(option) == value]:
            del part[option]
    return spec


def _parts(spec: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the parts of a plain spec that FORMER may name, with their names there. It skips what is no mapping."""
    sections = {name: spec.get(name) if isinstance(spec, dict) else None for name in ("batch", "model", "optim")}
    restart = sections["optim"].get("restart") if isinstance(sections["optim"], dict) else None
    for batch in (sections["batch"], restart.get("batch") if isinstance(restart, dict) else None):
        if isinstance(batch, dict):
            yield "batch", batch
    for _, registry, component in slots(sections["model"]) if isinstance(sections["model"], dict) else ():
        if isinstance(component, dict):
            yield f"{registry}/{component.get('kind')}", component


def _class(registry: str, kind: str) -> Any:
    try:
        return REGISTRIES[registry].get(kind)
    except KeyError as error:
        raise UserError(f"{registry}: {kind!r} is not registered") from error


@functools.cache
def defaults_of(cls: type) -> dict[str, Any]:
    parameters = inspect.signature(cls).parameters.values()
    return {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is not p.empty}


def _with_defaults(registry: str, component: Mapping[str, Any]) -> dict[str, Any]:
    """Adds the constructor's keyword-only defaults that a component does not set, and its former options."""
    name = f"{registry}/{component['kind']}"
    options = FORMER.get(name, {}) | defaults_of(_class(registry, component["kind"])) | dict(component)
    return {option: value for option, value in options.items() if not _as_before(f"{name}.{option}", value)}


def _dump(path: str, section: Any) -> dict[str, Any]:
    """Dumps a section as plain data, without the fields of GROWN that have their old value."""
    return without_grown(path, section.model_dump(mode="json"))


def without_grown(path: str, value: dict[str, Any]) -> dict[str, Any]:
    """Drops the fields of GROWN that have their old value. `path`: dotted name of the section."""
    return {
        name: without_grown(f"{path}.{name}", item) if isinstance(item, dict) else item
        for name, item in value.items()
        if not _as_before(f"{path}.{name}", item)
    }


def _as_before(path: str, value: Any) -> bool:
    return path in GROWN and canonical(GROWN[path]) == canonical(value)
