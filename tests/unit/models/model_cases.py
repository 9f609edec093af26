"""Every registered component as a tiny model: a new file is covered by every generic test at once."""

import functools
import json
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from models.bridges.mixtures import DepthAttentionBridge, MuddBridge
from models.cache import Cache
from models.registry import REGISTRIES
from models.seams import Residual
from models.transformer import build

VOCAB = 23
TWO_MEMORIES: dict[str, Any] = {"bridge": {"kind": "extra"}, "extra_encoder": {"kind": "biarn", "steps": 3}}
STACKED: dict[str, Any] = {"num_layers": 4, "cross_attention": {"kind": "stacked"}}
NO_DROPOUT = {"dropout": dict.fromkeys(("embedding", "residual", "attention", "ffn"), 0.0)}
STACK_KINDS = ("connection", "aggregation", "residual", "self_attention", "layer")


def config(norm: str, **changes) -> dict[str, Any]:
    base: dict[str, Any] = {
        "d_model": 16, "d_ff": 24, "num_heads": 2, "norm": norm, "encoder": {"num_layers": 4}, "decoder": {"num_layers": 4},
        "output_bias": True, "encoder_embedding_bias": True,
    }  # fmt: skip
    return base | changes


def variant(kind: str, name: str, norm: str) -> dict[str, Any]:
    """A model that uses component `name` of registry `kind` wherever it may stand."""
    kind_name, *written = name.split(" ")
    component: dict[str, Any] = {"kind": kind_name} | {key: json.loads(value) for key, value in (text.split("=") for text in written)}
    if kind_name in ("contextual", "multiscale"):
        return config(norm, **multiscale(kind, component))
    if kind_name in CONVOLUTIONAL or kind_name == "multistep":
        return config("post", **convolutional(kind, component))
    if kind in STACK_KINDS:
        check, at = REGISTRIES[kind].get(kind_name).refusal, {"num_layers": 4, "d_model": 16, "num_heads": 2, "norm": norm}
        plain = {key: value for key, value in component.items() if key != "kind"}
        stands = {side: check(at | {"side": side}, **plain) is None for side in ("encoder", "decoder")}
        if kind in ("residual", "layer", "connection") and not any(stands.values()):
            return variant(kind, name, "pre" if norm == "post" else "post")
        return config(norm, **{side: {"num_layers": 4} | ({kind: component} if here else {}) for side, here in stands.items()})
    if kind == "cross_attention":
        two = {} if kind_name == "single" else TWO_MEMORIES
        return config(norm, decoder={"num_layers": 4, kind: component}, **two)
    if kind == "extra_encoder" or kind_name == "extra":
        return config(norm, decoder=STACKED, **TWO_MEMORIES | {kind: component})
    if kind == "bridge" and kind_name == "depth_attention":
        return config("pre", encoder={"num_layers": 4, "residual": {"kind": "depth_attention"}}, bridge=component)
    if kind_name == "merged":
        return config(norm, bridge=component, extra_encoder={"kind": "multi_column", "num_layers": 2})
    if kind == "regularizer":
        return config(norm, regularizers=[component])
    if kind == "head":
        return config(norm, head=component)
    return config(norm, **{kind: component})


def multiscale(kind: str, component: dict[str, Any]) -> dict[str, Any]:
    """Two blocks of two layers. context, self_attention: all of MSC, both attentions alike; cross_attention: encoder layers without the
    context; bridge: no context at all."""
    contextual = component if kind.endswith("attention") else {"kind": "contextual"}
    parts: dict[str, Any] = {"encoder": {"num_layers": 4}, "decoder": {"num_layers": 2}, "bridge": {"kind": "multiscale", "blocks": 2}}
    if kind == "bridge":
        return parts | {"bridge": {"blocks": 2} | component}
    parts["context"] = {"kind": "multiscale", "blocks": 2} | (component if kind == "context" else {})
    parts["decoder"]["cross_attention"] = contextual
    if kind != "cross_attention":
        parts["encoder"]["self_attention"] = contextual
    return parts


CONVOLUTIONAL = ("convolution", "projected", "concatenated", "dense_attention_1", "dense_attention_2")
"""Components of a family of their own, beside those called multistep."""


def convolutional(kind: str, component: dict[str, Any]) -> dict[str, Any]:
    """connection concatenated, dense attention: DenseNMT with summary layers; else ConvS2S, of layers that differ in width and kernel."""
    dense = component["kind"].startswith(("concatenated", "dense_attention"))
    encoder_layer = {"kind": "convolution", "widths": 6, "residual": False} if dense else {"kind": "convolution", "widths": [6, 8, 8, 5]}
    parts = {
        "layer": encoder_layer | ({} if dense else {"kernels": [3, 1, 5, 3]}),
        "connection": {"kind": "concatenated", "sumlen": 3} if dense else {"kind": "projected"},
    }
    cross, bridge = {"kind": "multistep"}, {"kind": "dense_attention_2" if dense else "multistep"}
    if kind == "bridge":
        bridge = component
    elif kind == "cross_attention":
        cross = component
    else:
        parts[kind] = parts[kind] | component
    side = {"num_layers": 4} | parts
    own = {"word_dim": 10, "output_dim": 12, "positions": "learned", "max_positions": 16, "weight_norm": True, "init": "convs2s"}
    return own | {"encoder": side, "decoder": side | {"cross_attention": cross}, "bridge": bridge, "embedding_scale": False}


OPTIONS = [
    ("layer", "convolution kernels=5"),
    ("layer", 'runge_kutta order=4 coefficients="fixed"'),
    ("layer", 'runge_kutta order=4 coefficients="ema" per="layer"'),
    ("layer", 'runge_kutta coefficients="learned" function="layer"'),
    ("layer", 'runge_kutta coefficients="chain"'),
    ("layer", "convolution widths=16 kernels=1"),
    ("connection", "concatenated sumlen=0"),
    ("connection", "concatenated sumlen=2"),
    ("connection", 'concatenated summary="glu_conv3"'),
    ("connection", "dwa dilation=2 period=2"),
    ("connection", 'dwa where="top"'),
    ("connection", "embedding_skip normed=true backout=true"),
    ("connection", 'dense mode="layer_outputs" final_norm=true'),
    ("connection", 'hierarchical activation="attention"'),
    ("connection", 'hierarchical activation="relu" residual="none"'),
    ("connection", 'hierarchical residual="top"'),
    ("aggregation", 'iterative activation="attention" residual="top"'),
    ("aggregation", 'linear mode="narrow"'),
    ("aggregation", "mlrf-avg word_embedding=false"),
    ("aggregation", "mlrf-fnn word_embedding=false"),
    ("aggregation", 'mlrf-self-attention w1="layer" layer_embedding=false'),
    ("aggregation", 'mlrf-self-attention w1="hop" word_embedding=false n_hop=3'),
    ("head", "groups size=1"),
    ("residual", "hyper dynamic=false streams=2"),
    ("residual", 'hyper first="layer" tanh=false stream_norm="rms"'),
    ("residual", 'manifold_hyper start="identity" manifold="permutations"'),
    ("residual", 'manifold_hyper positive="sigmoid" last="columns" streams=2'),
    ("residual", 'hyper reduce="learned" streams=2'),
    ("residual", 'hyper dynamic=false reduce="learned" streams=2'),
    ("residual", 'manifold_hyper dynamic=false weights="softmax" temperature=0.5 iterations=3 reduce="learned"'),
    ("residual", "manifold_streams streams=3 iterations=5"),
    ("residual", 'manifold_hyper manifold="identity" stream_scale=true'),
    ("residual", 'manifold_hyper manifold="identity" start="identity" dynamic=false streams=2'),
    ("residual", "depth_attention blocks=2"),
    ("residual", 'depth_attention query="input" weights="sigmoid" key_norm=false'),
    ("residual", 'depth_attention sources="states" final="top"'),
    ("residual", 'depth_attention weights="scalars"'),
    ("residual", "mudd ways=1 round=64"),
    ("residual", "mudd dynamic=false"),
    ("residual", 'mudd norms="printed"'),
    ("residual", 'mudd norms="code"'),
    ("residual", 'mudd norms="printed" ways=1 dynamic=false'),
    ("residual", "deep_cross_attention last=1"),
    ("residual", 'rezero per="layer"'),
    ("residual", 'rezero norms="keep"'),
    ("residual", 'deepnorm gain="torchscale"'),
    ("residual", "laurel rank=3"),
    ("residual", "laurel rank=3 weights=false"),
    ("self_attention", "multi_layer k=3"),
    ("self_attention", 'value_residual form="interpolate" from_layer=3'),
    ("self_attention", "value_residual learn=false first=2.0 own=1.0"),
    ("self_attention", "value_residual share=true"),
    ("self_attention", 'layer_memory others="zero"'),
    ("self_attention", "depth_values stride=2"),
    ("extra_encoder", "birnn num_layers=3"),
    ("extra_encoder", "birnn rec_input_pos=true"),
    ("extra_encoder", "biarn num_layers=3 steps=2"),
    ("extra_encoder", 'biarn num_layers=2 steps="J"'),
    ("extra_encoder", "biarn steps=2 rec_input_pos=true"),
    ("bridge", 'extra where="all"'),
    ("self_attention", "relative k=2"),
    ("self_attention", 'directional masks="layers"'),
    ("context", 'multiscale cell="ffn"'),
    ("self_attention", 'contextual gate="add"'),
    ("self_attention", 'contextual gate="add" ctx_norms=3'),
    ("self_attention", "contextual ctx_norms=3"),
    ("cross_attention", "contextual ctx_norms=3"),
    ("bridge", "transparent dropout=0.0"),
    ("bridge", "hierarchical_document doc_layers=2"),
]
"""Options that change what is built, beside every component with its defaults."""

COMPONENTS = [(kind, name) for kind, registry in REGISTRIES.items() for name in registry.names()] + OPTIONS
PRE = [(kind, name, "pre") for kind, name in COMPONENTS]
POST = [(kind, name, "post") for kind, name in COMPONENTS if variant(kind, name, "post") != variant(kind, name, "pre")]
CASES = PRE + POST
ONCE = POST + [case for case in PRE if (*case[:2], "post") not in POST] + [("connection", "residual", "pre")]
"""Each component under one norm, for what takes seconds."""
PACKED = [case for case in ONCE if case[1].split()[0] not in {*CONVOLUTIONAL, "multistep"}]
"""Those that take packed rows: convolutions read neighbours."""


def quick(cases: list[tuple[str, str, str]]) -> pytest.MarkDecorator:
    """Tests of each of `cases`: in the fast suite of components with their defaults, in the slow one of all their options."""
    marked = [pytest.param(case, id="-".join(case), marks=[pytest.mark.slow] * (" " in case[1])) for case in cases]
    return pytest.mark.parametrize("case", marked)


DEFAULTS = [case for case in PRE if " " not in case[1]]
"""Each component without options that it does not need."""


def fresh(case: tuple[str, str, str], seed: int = 3):
    return off_start(build(variant(*case), VOCAB, VOCAB + 2, seed)).eval()


def off_start(model):
    """Residuals, and bridges of their kinds, start where some of their parameters, or the whole layer, have no part in the output."""
    generator = torch.Generator().manual_seed(11)
    with torch.no_grad():
        for module in model.modules():
            for p in module.parameters() if isinstance(module, Residual | MuddBridge | DepthAttentionBridge) else ():
                p.add_(0.1 * torch.randn(p.shape, generator=generator))
    return model


@functools.cache
def tiny(case: tuple[str, str, str]):
    """One model for all tests of a case, which leave it as it is; a test that changes its model takes a `fresh` one."""
    return fresh(case)


@functools.cache
def full(case: tuple[str, str, str]) -> torch.Tensor:
    """What `tiny` makes of `batch()`: hidden states [B, T, D]."""
    with torch.no_grad():
        return tiny(case)(*batch()).hidden


def batch(sentences: int = 3, src: int = 7, tgt: int = 6) -> tuple[torch.Tensor, torch.Tensor]:
    """Sources, the first with padding at its end, the second with a sentence end (EOS) within, and target inputs."""
    generator = torch.Generator().manual_seed(7)
    source = torch.randint(4, VOCAB, (sentences, src), generator=generator)
    source[0, 4:] = 0
    source[1:2, 2] = 3
    target = torch.randint(4, VOCAB, (sentences, tgt), generator=generator)
    target[:, 0] = 2
    return source, target


def beams(model) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Each step of a search, and the same of its rows' own tokens without a cache: three hypotheses a sentence with parents that change,
    sources with much padding, a sentence that leaves."""
    src = torch.randint(4, 20, (3, 9), generator=torch.Generator().manual_seed(1))
    src[1, 3:], src[2, 2:] = 0, 0
    tgt = torch.randint(4, 20, (9, 5), generator=torch.Generator().manual_seed(2))
    encoded, cache = model.encode(src), Cache()
    rows, place = torch.full((3, 1), 2), torch.arange(3)
    model.decode(rows, encoded, cache)
    cache.reorder(place.repeat_interleave(3))
    rows = rows.repeat_interleave(3, 0)
    for t in range(5):
        if t == 3:  # the second sentence leaves
            kept, rows_kept = torch.tensor([0, 2]), torch.tensor([0, 1, 2, 6, 7, 8])
            encoded, place = encoded.select(kept), place[kept]
            cache.reorder(rows_kept)
            cache.select(kept)
            rows, tgt = rows[rows_kept], tgt[rows_kept]
        rows = torch.cat((rows, tgt[:, t : t + 1]), dim=1)
        yield model.decode(rows[:, -1:], encoded, cache)[:, -1], model(src[place].repeat_interleave(3, 0), rows).hidden[:, -1]
        parents = torch.arange(0, len(rows), 3).repeat_interleave(3) + torch.tensor([0, 0, 1]).repeat(len(place))
        cache.reorder(parents)
        rows = rows[parents]
