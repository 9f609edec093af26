"""Converts our baseline to a CTranslate2 model with the same weights, hence the same outputs up to rounding.

`variables` maps weights of models.Transformer (pre- or post-norm, sinusoidal positions, three-way tied embeddings) to the names of a
CTranslate2 TransformerSpec and needs only numpy; `convert` writes them as a model and needs ctranslate2.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

Arrays = dict[str, np.ndarray]
LONGEST = 1024
SPECIALS = ["<pad>", "<unk>", "<s>", "</s>"]


class Unsupported(ValueError):
    """The model has a feature that a TransformerSpec does not support."""


def tokens(vocab: int) -> list[str]:
    """Returns a token for each id."""
    return SPECIALS + [f"w{i}" for i in range(len(SPECIALS), vocab)]


BASELINE = {"positions": "sinusoidal", "embeddings": "three-way", "activation": "relu", "embedding_scale": True, "extra_encoder": None}
PARTS = {"connection": "residual", "aggregation": "top", "self_attention": "single", "layer": "transformer", "cross_attention": "single"}


def refuse(config: Mapping[str, Any]) -> None:
    """Raises Unsupported unless the `model` section is a plain Transformer with three-way tied embeddings."""
    for key, wanted in BASELINE.items():
        if config.get(key, wanted) != wanted:
            raise Unsupported(f"not supported: {key} is {config[key]}")
    sides = [(side, key, kind) for side in ("encoder", "decoder") for key, kind in PARTS.items()]
    for side, key, kind in sides:
        if (config[side].get(key) or {"kind": kind})["kind"] != kind:
            raise Unsupported(f"not supported: {side}.{key} is {config[side][key]['kind']}")
    if (config.get("bridge") or {"kind": "top"})["kind"] != "top" or config.get("context"):
        raise Unsupported("not supported: another bridge, or a context")


def variables(weights: Mapping[str, np.ndarray], config: Mapping[str, Any]) -> Arrays:
    """Returns arrays by their name in the TransformerSpec, such as `encoder/layer_0/self_attention/linear_0/weight`.

    config: the `model` section of a spec. Raises Unsupported if weights are missing or left over.
    """
    refuse(config)
    left = dict(weights)

    def take(name: str) -> np.ndarray:
        if name not in left:
            raise Unsupported(f"no weight {name}")
        return np.asarray(left.pop(name), dtype=np.float32)

    out: Arrays = {}

    def linear(place: str, *names: str) -> None:
        """Adds a linear layer, or the concatenation of several with the same input."""
        for kind in ("weight", "bias"):
            out[f"{place}/{kind}"] = np.concatenate([take(f"{name}.{kind}") for name in names])

    def norm(place: str, name: str) -> None:
        out[f"{place}/gamma"], out[f"{place}/beta"] = take(f"{name}.weight"), take(f"{name}.bias")

    words = take("src_embedding.words.weight")
    positions = sinusoids(LONGEST, words.shape[1])
    for side in ("encoder", "decoder"):
        out[f"{side}/embeddings{'_0' if side == 'encoder' else ''}/weight"] = words
        out[f"{side}/position_encodings/encodings"] = positions
        for i in range(config[side]["num_layers"]):
            here, ours = f"{side}/layer_{i}", f"{side}.layers.{i}"
            attention = f"{ours}.self_attention.attention"
            linear(f"{here}/self_attention/linear_0", *(f"{attention}.{part}" for part in ("query", "key", "value")))
            linear(f"{here}/self_attention/linear_1", f"{attention}.output")
            norm(f"{here}/self_attention/layer_norm", f"{ours}.self_attention.sublayer.norm")
            if side == "decoder":
                attention = f"{ours}.cross_attention.attention"
                linear(f"{here}/attention/linear_0", f"{attention}.query")
                linear(f"{here}/attention/linear_1", f"{attention}.key", f"{attention}.value")
                linear(f"{here}/attention/linear_2", f"{attention}.output")
                norm(f"{here}/attention/layer_norm", f"{ours}.cross_attention.sublayer.norm")
            linear(f"{here}/ffn/linear_0", f"{ours}.feed_forward.inner")
            linear(f"{here}/ffn/linear_1", f"{ours}.feed_forward.outer")
            norm(f"{here}/ffn/layer_norm", f"{ours}.sublayer.norm")
        if config["norm"] == "pre":
            norm(f"{side}/layer_norm", f"{side}.aggregation.norm")
    out["decoder/projection/weight"] = words
    if "output.bias" in left:
        out["decoder/projection/bias"] = take("output.bias")
    if left:
        raise Unsupported(f"not a plain Transformer: {', '.join(sorted(left)[:3])}")
    return out


def sinusoids(length: int, d: int) -> np.ndarray:
    """Returns our position table: sines in the first half, cosines in the second."""
    half = d // 2
    rate = np.exp(np.arange(half) * -(math.log(10000.0) / max(half - 1, 1)))
    angle = np.arange(length)[:, None] * rate
    return np.concatenate((np.sin(angle), np.cos(angle)), axis=1).astype(np.float32)


def convert(arrays: Arrays, config: Mapping[str, Any], folder: Path) -> None:
    """Writes the model folder that ctranslate2.Translator reads."""
    from ctranslate2.specs.transformer_spec import TransformerSpec

    layers = (config["encoder"]["num_layers"], config["decoder"]["num_layers"])
    spec = TransformerSpec.from_config(layers, config["num_heads"], pre_norm=config["norm"] == "pre")
    for name, value in arrays.items():
        *path, leaf = name.split("/")
        place = spec
        for part in path:
            place = _step(place, part)
        setattr(place, leaf, value)
    words = tokens(len(arrays["decoder/projection/weight"]))
    spec.register_source_vocabulary(words)
    spec.register_target_vocabulary(words)
    spec.config.add_source_eos = True
    spec.config.layer_norm_epsilon = config.get("norm_eps", 1e-6)
    spec.validate()
    spec.optimize(quantization=None)
    folder.mkdir(parents=True, exist_ok=True)
    spec.save(str(folder))


def _step(place: Any, part: str) -> Any:
    if hasattr(place, part):
        return getattr(place, part)
    name, _, index = part.rpartition("_")
    return getattr(place, name)[int(index)]
