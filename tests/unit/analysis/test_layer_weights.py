"""What methods learned to read: the numbers are those of the parameters, and multiplied out they say what is in what a sub-layer reads."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from models import build
from models.plain import SubLayer
from orchestrator.analysis.kinds.layer_weights import layer_weights, multiplied_out, weights_of
from orchestrator.errors import UserError
from orchestrator.specs.rows import resolve
from tests.unit.analysis.conftest import drawn
from tests.unit.models.model_cases import VOCAB, config, off_start
from tests.unit.models.residual_cases import model_of

PAIRS = [([5, 6, 7, 3], [4, 5]), ([8, 3], [6, 7, 9])]


@pytest.mark.parametrize("kind", ["hyper", "manifold_hyper", "manifold_streams", "rezero", "laurel"])
def test_multiplied_out_weights_give_what_each_sub_layer_reads(kind: str) -> None:
    """x_i = sum_j w_ij y_j for each token, with the y_j that the sub-layers really gave, y_0 = h_0."""
    model = off_start(model_of("pre", kind=kind))
    read: list[torch.Tensor] = []
    gave: list[torch.Tensor] = []
    weights: list[dict[str, torch.Tensor]] = []

    def watched(module: SubLayer, given: Any) -> None:
        weights.append(module.residual.weights(given[0]))
        write = type(module.residual).write
        read.append(module.residual.read(given[0])[0])
        module.residual.write = lambda s, y, x, drop: gave.append(y) or write(module.residual, s, y, x, drop)  # type: ignore[method-assign]

    for module in model.encoder.modules():
        if isinstance(module, SubLayer):
            module.register_forward_pre_hook(watched)
    src = torch.tensor([PAIRS[0][0]])
    history = model(src, torch.tensor([[2]])).encoder
    gave.insert(0, read[0] / weights[0]["read"].sum(-1, keepdim=True))
    shares = multiplied_out(weights, 4)
    assert len(read) == 8 and history.num_layers == 4
    for i, (x, share) in enumerate(zip(read, shares, strict=True)):
        expected = sum(share[:, j, None] * y[0] for j, y in enumerate(gave[: i + 1]))
        torch.testing.assert_close(x[0], expected, atol=1e-5, rtol=1e-4)


def test_static_weights_are_the_parameters() -> None:
    model = off_start(build(config("pre", encoder={"connection": {"kind": "dlcl"}}, bridge={"kind": "transparent"}), VOCAB, VOCAB, 1))
    found = weights_of(model.eval(), PAIRS)
    matrix = found["encoder", "dlcl", "layers"]
    for l, row in enumerate(model.encoder.connection.weight.tolist(), start=1):
        assert matrix[l][:l] == row[:l] and all(value != value for value in matrix[l][l:])
    mixtures = found["bridge", "transparent", "layers"]
    assert all(sum(row) == pytest.approx(1.0) for row in mixtures.values()) and len(mixtures) == len(model.decoder.layers)


def test_weights_of_tokens_are_means_over_all_of_them() -> None:
    model = off_start(model_of("pre", kind="depth_attention"))
    found = weights_of(model, PAIRS)["encoder", "depth_attention", "sources"]
    assert sorted(found) == [2, 3, 4, 5, 6, 7, 8, 9] and [len(found[i]) for i in sorted(found)] == list(range(2, 10))
    one, other = (weights_of(model, [pair])["encoder", "depth_attention", "sources"][5] for pair in PAIRS)
    assert found[5] == pytest.approx([(4 * a + 2 * b) / 6 for a, b in zip(one, other, strict=True)], abs=1e-5)
    assert all(sum(row) == pytest.approx(1.0, abs=1e-5) for row in found.values())


def test_at_their_start_they_are_the_plain_network() -> None:
    for kind in ("hyper", "mudd", "laurel"):
        found = weights_of(model_of("pre", kind=kind), PAIRS)
        way = {"mudd": "r"}.get(kind, "sum")
        for reader, row in found["decoder", kind, way].items():
            wanted = [0.0] * (len(row) - 1) + [1.0] if kind == "mudd" else [4.0 if reader == 13 and kind == "hyper" else 1.0] * len(row)
            assert row == pytest.approx(wanted, abs=1e-5), (kind, reader)
    assert all(
        row == pytest.approx([0.0], abs=1e-6)
        for row in weights_of(model_of("pre", kind="hyper"), PAIRS)["encoder", "hyper", "spread"].values()
    )


@pytest.mark.parametrize(
    ("side", "ways"),
    [
        ({"residual": {"kind": "deep_cross_attention"}}, {"q", "k", "v", "g"}),
        ({"residual": {"kind": "mudd", "ways": 1}}, {"r"}),
        ({"connection": {"kind": "dwa"}}, {"layers"}),
        ({"connection": {"kind": "embedding_skip"}}, {"layer below, h_0"}),
        ({"self_attention": {"kind": "value_residual"}}, {"V_1, V"}),
        ({"self_attention": {"kind": "layer_memory"}}, {"layers"}),
    ],
)
def test_every_method_has_its_ways(side: dict[str, Any], ways: set[str]) -> None:
    model = build(config("pre", encoder={"num_layers": 4} | side, decoder={"num_layers": 4} | side), VOCAB, VOCAB, 1).eval()
    found = weights_of(model, PAIRS)
    assert {way for _, _, way in found} == ways and {name for name, _, _ in found} == {"encoder", "decoder"}


def test_a_row_has_records_a_figure_and_a_summary(own: Any) -> None:
    sets = ["model.norm=pre", "model.encoder.residual={kind: depth_attention}", "model.decoder.connection={kind: dlcl}"]
    own.rows["base"] = resolve(f"{own.file}#base", sets=sets)[0]
    own.finish("base")
    made = layer_weights(own.context("layer-weights", "base", "hop1", options=["sentences=3"]))
    assert {(r["side"], r["component"]) for r in made.records} == {("encoder", "depth_attention"), ("decoder", "dlcl")}
    assert len(made.notes) == 1 and "hop1" in made.notes[0]
    assert len(drawn(made).axes) == 4, "two heat maps and their bars"
    with pytest.raises(UserError, match="hop1: no component of it weighs layers"):
        layer_weights(own.context("layer-weights", "hop1"))
