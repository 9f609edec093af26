"""Parameters that a component adds to the plain model, at the three sizes whose counts the recipes of methods give."""

import functools
from typing import Any

import pytest
import torch

from models.transformer import build, count_parameters

SIZES = {"base": (512, 2048, 6, 6), "mini": (256, 1024, 4, 2), "small": (128, 512, 6, 6)}
"""d_model, d_ff, encoder and decoder layers."""


def both(slot: str, component: dict[str, Any]) -> dict[str, Any]:
    return {"encoder": {slot: component}, "decoder": {slot: component}}


COUNTS: list[tuple[str, dict[str, Any], tuple[int, ...]]] = [
    ("pre", both("residual", {"kind": "rezero"}), (-32_738, -8_178, -8_162)),
    ("pre", both("residual", {"kind": "rezero", "per": "layer"}), (-32_756, -8_186, -8_180)),
    ("post", both("residual", {"kind": "deepnorm"}), (0, 0, 0)),
    ("post", both("residual", {"kind": "admin"}), (15_360, 3_584, 3_840)),
    ("pre", both("residual", {"kind": "laurel"}), (60, 28, 60)),
    ("pre", both("residual", {"kind": "laurel", "rank": 16, "weights": False}), (491_520, 114_688, 122_880)),
    ("pre", both("residual", {"kind": "delta"}), (30_780, 7_196, 7_740)),
    ("pre", both("residual", {"kind": "hyper"}), (92_940, 21_868, 23_820)),
    ("pre", both("residual", {"kind": "hyper", "dynamic": False}), (720, 336, 720)),
    ("pre", both("residual", {"kind": "manifold_hyper"}), (1_475_370, 344_442, 369_450)),
    ("pre", both("residual", {"kind": "depth_attention"}), (30_720, 7_168, 7_680)),
    ("pre", both("residual", {"kind": "depth_attention", "query": "input"}), (7_895_040, 924_672, 499_200)),
    ("pre", both("residual", {"kind": "mudd"}), (134_518, 24_268, 36_214)),
    ("pre", both("residual", {"kind": "mudd", "ways": 1}), (49_778, 11_196, 12_914)),
    ("pre", both("residual", {"kind": "mudd", "norms": "printed"}), (168_310, 30_668, 44_662)),
    ("pre", both("residual", {"kind": "hyper", "reduce": "learned"}), (92_940 + 2 * 517, 21_868 + 2 * 261, 23_820 + 2 * 133)),
    ("pre", both("residual", {"kind": "manifold_streams"}), (30 * (7 * 512 + 27), 14 * (7 * 256 + 27), 30 * (7 * 128 + 27))),
    ("post", both("residual", {"kind": "keel"}), (28 * 1_024, 12 * 512, 28 * 256)),  # two stacks without the norm of their first sub-layer
    ("pre", both("residual", {"kind": "siamese"}), (32 * 2_048, 16 * 1_024, 32 * 512)),
    ("pre", both("residual", {"kind": "multi_head_depth_attention"}), (30_720, 7_168, 7_680)),
    ("pre", both("residual", {"kind": "delta_depth_attention"}), (28 * 1_025, 12 * 513, 28 * 257)),
    ("pre", both("residual", {"kind": "fractions"}), (30 * (128 * 9 + 38), 14 * (64 * 9 + 38), 30 * (32 * 9 + 38))),
    ("pre", both("self_attention", {"kind": "selective_values"}), (10 * 8 * 512, 4 * 4 * 256, 10 * 4 * 128)),
    (
        "pre",
        {"decoder": {"layer": {"kind": "merged_attention"}}},
        tuple(-n * (4 * d * d + 6 * d) for n, d in ((6, 512), (2, 256), (6, 128))),
    ),
    ("pre", both("residual", {"kind": "mudd", "dynamic": False}), (20_654, 4_148, 5_294)),
    ("pre", both("residual", {"kind": "deep_cross_attention"}), (105_472, 18_176, 26_368)),
    ("pre", both("residual", {"kind": "deep_cross_attention", "last": 2}), (93_184, 17_920, 23_296)),
    ("pre", both("connection", {"kind": "dwa"}), (54, 19, 54)),
    ("pre", both("connection", {"kind": "dwa", "dilation": 2, "period": 2}), (18, 7, 18)),
    ("pre", both("connection", {"kind": "dwa", "where": "top"}), (14, 8, 14)),
    ("pre", both("connection", {"kind": "embedding_skip"}), (20, 8, 20)),
    ("pre", both("connection", {"kind": "backout"}), (2, 2, 2)),
    ("pre", both("self_attention", {"kind": "value_residual"}), (20, 8, 20)),
    ("pre", both("self_attention", {"kind": "value_residual", "share": True}), (-2_626_560, -263_168, -165_120)),
    ("pre", both("self_attention", {"kind": "layer_memory"}), (2_560, 176, 640)),
    ("pre", {"encoder": {"aggregation": {"kind": "groups"}}, "head": {"kind": "groups", "size": 1}}, (3 + 6, 2 + 2, 3 + 6)),
    ("post", {"encoder": {"aggregation": {"kind": "groups"}}}, (3 + 1_024, 2 + 512, 3 + 256)),
    ("pre", {"head": {"kind": "surface_fusion"}}, (1_050_624, 263_168, 66_048)),
    ("pre", {"encoder": {"layer": {"kind": "runge_kutta"}}}, (1_025, 513, 257)),
    ("pre", {"encoder": {"layer": {"kind": "runge_kutta", "per": "layer"}}}, (6 * 1_025, 4 * 513, 6 * 257)),
    ("pre", {"encoder": {"layer": {"kind": "runge_kutta", "coefficients": "learned"}}}, (2, 2, 2)),
    (
        "pre",
        {"encoder": {"layer": {"kind": "runge_kutta", "coefficients": "ema"}, "connection": {"kind": "corrector"}}},
        (2 * (49 + 6 * 1_024) + 1, 2 * (25 + 4 * 512) + 1, 2 * (49 + 6 * 256) + 1),
    ),
    ("pre", {"bridge": {"kind": "mudd"}}, (84 + 512 * 84 + 84 * 84 + 1_024, 20 + 256 * 20 + 20 * 20 + 512, 84 + 128 * 84 + 84 * 84 + 256)),
]


def plain(d: int, f: int, encoder: int, decoder: int, norm: str) -> dict[str, Any]:
    sizes = {"d_model": d, "d_ff": f, "num_heads": 4 if d < 512 else 8, "norm": norm}
    return sizes | {"encoder": {"num_layers": encoder}, "decoder": {"num_layers": decoder}}


@functools.cache
def parameters(*size: Any) -> int:
    """Of the plain model."""
    with torch.device("meta"):
        return count_parameters(build(plain(*size), 9, 9))


@pytest.mark.parametrize(("norm", "changes", "own"), COUNTS, ids=str)
def test_own_parameters(norm, changes, own):
    found = []
    for size in SIZES.values():
        model = plain(*size, norm)
        model |= {key: model.get(key, {}) | value for key, value in changes.items()}
        with torch.device("meta"):
            found.append(count_parameters(build(model, 9, 9)) - parameters(*size, norm))
    assert tuple(found) == own
