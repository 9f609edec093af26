"""The three keys of a run: sha256 of what decides its bits, and of nothing else.

    train   model, optimisation, batch, length, precision, threads, seed, training data, parent's train key, versions of the components
    decode  train + choice of checkpoint and search + text of the test split
    score   decode + metric and its options

A tuned length penalty has a fourth, `tune`: train + search + text of the validation split + metric. Its decode key holds it.

Equal meaning gives equal keys: order of mappings, 1 and 1.0, tuples and lists, written-out and left-out defaults do not matter.
Paths, worker counts, row names, addresses and log settings never enter. The text and its processing enter through the manifest.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from orchestrator.errors import UserError
from orchestrator.spec import RunSpec

FORMAT = 1

GROWN: dict[str, Any] = {
    "data.truncate": None,
    "data.subword.merges": "own",
    "model.max_positions": 1024,
    "model.word_dim": None,
    "model.output_dim": None,
    "model.weight_norm": False,
    "optim.momentum": None,
    "optim.schedule.shrink": None,
    "optim.schedule.min_lr": None,
    "optim.schedule.cut": None,
    "optim.restart.schedule.shrink": None,
    "optim.restart.schedule.min_lr": None,
    "optim.restart.schedule.cut": None,
    "decode.max_length": None,
    "decode.length_penalty.candidates": None,
    "decode.no_repeat_ngram": 0,
    "decode.precision": "fp32",
    "connection/dense.mode": "literal",
    "connection/dense.final_norm": False,
    "connection/hierarchical.residual": "all",
    "connection/hierarchical.dropout": 0.0,
    "aggregation/iterative.residual": "all",
    "aggregation/iterative.dropout": 0.0,
    "aggregation/mlrf-fnn.activation": "relu",
    "aggregation/mlrf-self-attention.w1": "shared",
    "aggregation/mlrf-self-attention.attention_activation": "tanh",
    "aggregation/mlrf-self-attention.activation": "relu",
}
"""Fields younger than FORMAT 1: `model.positions_max` or `connection/dense.window` -> the value that older runs had in effect.

A field with that value is left out of the key, so that a new option does not rename every finished run."""

_SIDE = ("connection", "aggregation", "self_attention", "layer", "cross_attention")
_WHOLE = ("bridge", "extra_encoder", "context")


@dataclass(frozen=True)
class Keys:
    """Full hex digests; all None while the data is absent (status `needs-data`)."""

    train: str | None
    decode: str | None
    score: str | None
    tune: str | None = None

    def as_dict(self) -> dict[str, str | None]:
        """Without `tune` where nothing is tuned."""
        return {name: key for name, key in asdict(self).items() if name != "tune" or key is not None}


def keys_of(spec: RunSpec, manifest: Mapping[str, Any] | None, parent_train_key: str | None) -> Keys:
    """Keys of a resolved row. `manifest`: of its data, None while absent. `parent_train_key`: of the row that `init_from` names.

    ValueError if `init_from` and the parent's key do not go together; UserError for a component that is not registered and for a
    test split that is not there.
    """
    if manifest is None:
        return Keys(None, None, None)
    if (spec.init_from is None) != (parent_train_key is None):
        raise ValueError(f"init_from is {spec.init_from!r} but the parent's train key is {parent_train_key!r}")
    from orchestrator.data.prepare import split_key, training_key

    train = digest(_train_meaning(spec, training_key(dict(manifest)), parent_train_key))
    text = [spec.score.test, split_key(dict(manifest), spec.score.test)]
    about = {"format": FORMAT, "train": train, "decode": _decode_meaning(spec)}
    tune = None
    if spec.decode.length_penalty.alpha == "tuned":
        metric = {name: value for name, value in _score_meaning(spec).items() if name != "test"}
        tune = digest(about | {"valid": split_key(dict(manifest), "valid"), "score": metric})
    decode = digest(about | {"test": text} | ({} if tune is None else {"tune": tune}))
    score = digest({"format": FORMAT, "decode": decode, "score": _score_meaning(spec)})
    return Keys(train, decode, score, tune)


def short(key: str) -> str:
    """The first 16 digits of a key: name of its directory or file."""
    return key[:16]


def digest(value: Any) -> str:
    """sha256 of the canonical JSON of a value."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()


def canonical(value: Any) -> str:
    """JSON with sorted keys and no spaces; equal numbers have one form. TypeError, ValueError for what is not plain finite data."""
    return json.dumps(_normal(value), sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def component_versions(model: Any) -> dict[str, int]:
    """`{"connection/dense": 1, ...}`: the declared version of each component class that a ModelSpec uses."""
    used = {(registry, component["kind"]) for registry, component in _components(model)}
    return {f"{registry}/{kind}": int(_class(registry, kind).version) for registry, kind in sorted(used)}


def _train_meaning(spec: RunSpec, data: str, parent: str | None) -> dict[str, Any]:
    optim = _dump("optim", spec.optim)
    optim["name"] = optim.pop("kind")  # its word in the first keys
    if spec.optim.kind != "adam":
        optim = {name: value for name, value in optim.items() if name not in ("betas", "eps")}
    optim["schedule"] = _schedule(optim["schedule"])
    if optim.get("restart"):
        optim["restart"]["schedule"] = _schedule(optim["restart"]["schedule"])
    train = _dump("train", spec.train)
    train.pop("log_gradient_norms")
    checkpoint_every, snapshot_every = train.pop("checkpoint_every"), train.pop("snapshot_every")
    train.pop("recompute")  # how it is computed, not what
    if train["snapshots"] > 0:
        train["snapshot_every"] = snapshot_every or checkpoint_every
    return {
        "format": FORMAT,
        "data": data,
        "batch": _dump("batch", spec.batch),
        "model": _model_meaning(spec.model),
        "components": component_versions(spec.model),
        "optim": optim,
        "train": train,
        "seed": spec.seed,
        "parent": parent,
    }


def _decode_meaning(spec: RunSpec) -> dict[str, Any]:
    decode = _dump("decode", spec.search)
    if decode["length_penalty"]["kind"] == "none":
        decode["length_penalty"].pop("alpha")
    return decode


def _score_meaning(spec: RunSpec) -> dict[str, Any]:
    """The beam is in the key of the decoding."""
    return {name: value for name, value in _dump("score", spec.score).items() if name != "beam_size"}


def _schedule(schedule: dict[str, Any]) -> dict[str, Any]:
    """`factor` belongs to noam alone."""
    return {name: value for name, value in schedule.items() if name != "factor" or schedule["kind"] == "noam"}


def _model_meaning(model: Any) -> dict[str, Any]:
    dumped = _dump("model", model)
    for side in ("encoder", "decoder"):
        for name in _SIDE:
            if name in dumped[side]:
                dumped[side][name] = _with_defaults(name, dumped[side][name])
    for name in _WHOLE:
        if dumped.get(name) is not None:
            dumped[name] = _with_defaults(name, dumped[name])
    dumped["regularizers"] = [_with_defaults("regularizer", component) for component in dumped["regularizers"]]
    return dumped


def _components(model: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    for side in (model.encoder, model.decoder):
        yield from ((name, getattr(side, name)) for name in _SIDE if hasattr(side, name))
    yield from ((name, getattr(model, name)) for name in _WHOLE if getattr(model, name) is not None)
    yield from (("regularizer", component) for component in model.regularizers)


def _class(registry: str, kind: str) -> Any:
    from models.registry import REGISTRIES

    try:
        return REGISTRIES[registry].get(kind)
    except KeyError as error:
        raise UserError(f"{registry}: {kind!r} is not registered") from error


def _with_defaults(registry: str, component: Mapping[str, Any]) -> dict[str, Any]:
    """A component with the options that it leaves to its constructor's keyword-only defaults."""
    parameters = inspect.signature(_class(registry, component["kind"])).parameters.values()
    options = {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is not p.empty} | dict(component)
    return {name: value for name, value in options.items() if not _as_before(f"{registry}/{component['kind']}.{name}", value)}


def _dump(path: str, section: Any) -> dict[str, Any]:
    """A section as plain data, without the fields of GROWN that have their old value."""
    return without_grown(path, section.model_dump(mode="json"))


def without_grown(path: str, value: dict[str, Any]) -> dict[str, Any]:
    """A section without the fields of GROWN that have their old value. `path`: the section's name."""
    return {
        name: without_grown(f"{path}.{name}", item) if isinstance(item, dict) else item
        for name, item in value.items()
        if not _as_before(f"{path}.{name}", item)
    }


def _as_before(path: str, value: Any) -> bool:
    return path in GROWN and canonical(GROWN[path]) == canonical(value)


def _normal(value: Any) -> Any:
    if value is None or isinstance(value, (bool, str, int)):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{value} has no place in a key")
        return int(value) if value.is_integer() else value
    if isinstance(value, Mapping):
        for name in value:
            if not isinstance(name, str):
                raise TypeError(f"mapping key {name!r} is not a string")
        return {name: _normal(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_normal(item) for item in value]
    raise TypeError(f"{type(value).__name__} has no place in a key")
