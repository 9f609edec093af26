"""Operations counted from the equations, against what torch counts as it runs."""

import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from models.transformer import build
from orchestrator.cost.flops import work
from orchestrator.cost.work import Tokens
from orchestrator.specs.schema import ModelSpec

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))
from executed_flops import counter_of_flops
from flops import transformer

VOCAB, SRC, TGT = 400, 24, 21
SIDE = {"num_layers": 3}
VARIANTS: dict[str, dict[str, Any]] = {
    "baseline": {},
    "positions": {"positions": "learned", "max_positions": 256},
    "steps": {
        "extra_encoder": {"kind": "biarn", "steps": 4},
        "bridge": {"kind": "extra"},
        "decoder": SIDE | {"cross_attention": {"kind": "gated_sum"}},
    },
    "linear": {"decoder": SIDE | {"aggregation": {"kind": "linear"}}},
    "mlrf": {"encoder": SIDE | {"aggregation": {"kind": "mlrf-self-attention", "d_a": 128, "d_f": 64}}},
    "mlrf-hop": {"decoder": SIDE | {"aggregation": {"kind": "mlrf-self-attention", "d_a": 128, "d_f": 64, "w1": "hop"}}},
    "mlrf-layer": {"encoder": SIDE | {"aggregation": {"kind": "mlrf-self-attention", "d_a": 128, "d_f": 64, "w1": "layer"}}},
    "multi-layer": {"encoder": SIDE | {"self_attention": {"kind": "multi_layer", "k": 2}}},
    "transparent": {"bridge": {"kind": "transparent"}},
    "merged-attention": {"decoder": SIDE | {"layer": {"kind": "merged_attention"}}},
    "groups": {"head": {"kind": "groups", "size": 1}},
    "surface": {"head": {"kind": "surface_fusion"}},
    "runge-kutta": {
        "encoder": SIDE | {"layer": {"kind": "runge_kutta", "order": 4, "coefficients": "fixed"}, "connection": {"kind": "hierarchical"}}
    },
    "runge-kutta-decoder": {"decoder": SIDE | {"layer": {"kind": "runge_kutta"}}},
    "corrector": {"encoder": SIDE | {"layer": {"kind": "runge_kutta"}, "connection": {"kind": "corrector"}}},
}


def model(**changes) -> ModelSpec:
    shape = {"d_model": 64, "d_ff": 128, "num_heads": 4, "norm": "pre", "encoder": SIDE, "decoder": SIDE}
    return ModelSpec.model_validate(shape | changes)


@pytest.mark.parametrize("name", VARIANTS)
def test_a_count_is_near_what_is_executed(name: str) -> None:
    """As torch counts a forward pass over two pairs without padding."""
    spec = model(**VARIANTS[name])
    made, found = build(spec.model_dump(), VOCAB, VOCAB, 1).train(), work(spec, VOCAB, VOCAB)
    source, target = torch.randint(4, VOCAB, (2, SRC)), torch.randint(4, VOCAB, (2, TGT))
    with counter_of_flops() as counter:
        made.logits(made(source, target).hidden)
    hidden = 2 * found.own_tgt * 2 * (TGT * TGT - TGT)  # torch computes what the causal mask hides too
    assert found.forward(Tokens.of([SRC] * 2, [TGT] * 2)) + hidden == pytest.approx(counter.get_total_flops(), rel=0.06)


def test_the_transformer_is_counted_by_its_own_equations() -> None:
    """These by hand: tests/unit/benchmarks/test_workers.py."""
    tokens, found = Tokens.of([SRC, 5], [TGT, 9]), work(model(decoder={"num_layers": 1}), VOCAB, VOCAB)
    assert found.forward(tokens) == pytest.approx(transformer(64, 128, 3, 1, VOCAB).forward(tokens), rel=0.02)
