"""Fields that specs have got since their keys were first made."""

from typing import Any

_BATCH: dict[str, Any] = {"batch.stages": [], "batch.curriculum": 0, "batch.pad_to": 1}
_SCHEDULE = ("warmup_ratio", "cooldown", "decay", "shrink", "min_lr", "cut")

_STREAM_SCALE = ("model.encoder.residual.stream_scale", "model.decoder.residual.stream_scale")

_RATED = ("rezero", "laurel", "admin", "delta", "hyper", "manifold_hyper", "depth_attention", "mudd", "deep_cross_attention")

GROWN: dict[str, Any] = {
    "data.truncate": None,
    "data.subword.merges": "own",
    "data.subword.model": None,
    "data.subword.dictionary": None,
    "model.max_positions": 1024,
    "model.word_dim": None,
    "model.output_dim": None,
    "model.weight_norm": False,
    "model.zero_residual": False,
    "model.encoder.residual": {"kind": "plain"},
    "model.decoder.residual": {"kind": "plain"},
    "model.head": None,
    **{f"{phase}{name}": value for phase in ("", "optim.restart.") for name, value in _BATCH.items()},
    **{f"optim.{phase}schedule.{name}": None for phase in ("", "restart.") for name in _SCHEDULE},
    "optim.momentum": None,
    "optim.weight_decay": 0.0,
    "optim.ema": None,
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
    **{f"residual/{kind}.rate": 1.0 for kind in _RATED},
    "residual/hyper.reduce": "sum",
    "residual/hyper.output_gain": 1.0,
    "residual/manifold_hyper.temperature": 1.0,
    "residual/manifold_hyper.weights": "sigmoid",
    "residual/manifold_hyper.reduce": "sum",
    "residual/manifold_hyper.stream_scale": False,
    **dict.fromkeys(_STREAM_SCALE, False),
    "residual/mudd.norms": "none",
    "residual/mudd.grow": False,
}
"""Fields added after FORMAT 1 (`model.max_positions`, `connection/dense.mode`, ...) and the values that older runs had in effect.

A field with that value is left out of the key, so that a new option does not rename finished runs."""

FORMER: dict[str, dict[str, Any]] = {
    "aggregation/groups": {"members": "last"},
    "bridge/depth_attention": {"rate": 1.0},
    "bridge/mudd": {"dynamic": True, "rate": 1.0},
    "connection/backout": {"layer": 0, "start": 0.5},
    "connection/embedding_skip": {"own": 1.0, "skip": 0.0},
    "head/surface_fusion": {"mode": "hard", "temperature": 1.0},
    "residual/admin": {"variance": "code", "rate": 1.0},
    "residual/deep_cross_attention": {"rate": 1.0},
    "residual/delta": {"value": "learned", "rate": 1.0},
    "residual/hyper": {"output_gain": 1.0},
    "residual/laurel": {"squash": "softmax", "rate": 1.0},
    "residual/manifold_streams": {"first": "sublayer", "rate": 1.0},
    "residual/mudd": {"grow": False},
}
"""Options that components no longer have, and the values that count now. Keys, recorded specs and their digests have them."""

LATER = ("batch.pad_to", "optim.restart.batch.pad_to", *_STREAM_SCALE, "data.subword.model", "data.subword.dictionary")
"""Fields of GROWN added after the first results were shipped. Digests of whole specs, as of looks, leave out their old values too."""
