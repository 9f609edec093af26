"""What methods learned to read: shares of inputs (Dou et al. 2018, Eq. 11) and weights of layers and streams."""

from typing import Any

import pytest
import torch

from models.config import ModelConfig
from models.plain import SubLayer
from models.registry import AGGREGATIONS, CONNECTIONS
from models.site import Flow, History, Site
from models.transformer import build
from orchestrator.analysis.kinds.layer_weights import exploitation, layer_weights, multiplied_out, nodes, scores, weights_of
from orchestrator.decoding.translate import pad
from orchestrator.specs.rows import resolve
from orchestrator.specs.schema import ModelSpec
from tests.unit.analysis.conftest import drawn
from tests.unit.conftest import refused
from tests.unit.models.model_cases import VOCAB, config, off_start
from tests.unit.models.residual_cases import model_of


def test_shares_of_known_weights() -> None:
    w1 = torch.cat([torch.full((8, 4), -1.0), torch.full((8, 4), 2.0), torch.full((8, 4), 3.0)], dim=1)
    assert scores(w1, 3) == pytest.approx([1 / 6, 2 / 6, 3 / 6])


def test_inputs_of_the_nodes_as_in_the_paper() -> None:
    """Fig. 5: node 1 {H2, H1}, node 2 {H4, H3, G1}, node 3 {H6, H5, G2}."""
    sides = {"encoder": {"connection": {"kind": "hierarchical"}}, "decoder": {"aggregation": {"kind": "iterative"}, "num_layers": 3}}
    model = ModelSpec.model_validate({"d_model": 16, "d_ff": 32, "num_heads": 2, **sides})
    assert [set(inputs) for inputs, _ in nodes(model, "encoder")] == [{"H2", "H1"}, {"H4", "H3", "G1"}, {"H6", "H5", "G2"}]
    assert [set(inputs) for inputs, _ in nodes(model, "decoder")] == [{"H2", "H1"}, {"H3", "G2"}]


@pytest.mark.parametrize("kind", ["hierarchical", "iterative"])
def test_columns_belong_to_the_input_of_their_name(kind: str) -> None:
    """W1's columns of one input are zero: the node's output, without its residual, no longer depends on that input, and on it alone."""
    seam = "connection" if kind == "hierarchical" else "aggregation"
    side = {"num_layers": 4, seam: {"kind": kind, "residual": "none"}}
    model = ModelSpec.model_validate({"d_model": 8, "d_ff": 8, "num_heads": 2, "encoder": side})
    config = ModelConfig.of(model.model_dump())
    site = Site("encoder", 0, 4, config)
    torch.manual_seed(1)
    module = (CONNECTIONS if seam == "connection" else AGGREGATIONS).get(kind)(site, residual="none").double()
    inputs, _ = list(nodes(model, "encoder"))[-1]
    node = module.nodes[-1]
    for position, name in enumerate(inputs):
        if name.startswith("G") and kind == "iterative":
            continue  # inside the module: no state of the history
        kept = node.inner.weight.detach().clone()
        with torch.no_grad():
            node.inner.weight[:, position * 8 : (position + 1) * 8] = 0.0
        states = [torch.randn(1, 2, 8, dtype=torch.float64, requires_grad=True) for _ in range(5)]
        lower = torch.randn(1, 2, 8, dtype=torch.float64, requires_grad=True)
        history = History(states[0])
        history.kept, history.memo[module] = states, lower
        out = module(5, history, Flow()) if seam == "connection" else module(states[-1], history, Flow())
        known = {"H3": states[3], "H4": states[4], "G1": lower}
        gradients = torch.autograd.grad((out * torch.randn_like(out)).sum(), list(known.values()), allow_unused=True)
        silent = {label for label, g in zip(known, gradients, strict=True) if g is None or not g.abs().sum() > 0}
        assert silent - ({"G1"} if kind == "iterative" else set()) == {name}
        with torch.no_grad():
            node.inner.weight.copy_(kept)


def test_a_row_from_its_weights(lab) -> None:
    made = exploitation(lab.context("exploitation", "base", "hier", "iter"))
    sums: dict[Any, float] = {}
    for r in made.records:
        sums[r["row"], r["node"]] = sums.get((r["row"], r["node"]), 0.0) + r["score"]
    assert len(sums) == 2 + 3 and all(total == pytest.approx(1.0, abs=1e-5) for total in sums.values())
    assert [r["input"] for r in made.records if r["row"] == "demo/small/hier"] == ["H2", "H1", "H4", "H3", "G1"]
    assert made.notes == ["demo/small/base: its encoder has no aggregation node with a feed-forward network; left out"]
    assert len(drawn(made).axes) == 2 + 1, "two maps and one bar"


def test_no_row_has_a_node(lab) -> None:
    assert "demo/small/base: its encoder has no aggregation node" in refused(exploitation, lab.context("exploitation", "base"))[0]
    assert "side: found 'left'; expected one of decoder, encoder" in refused(lab.context, "exploitation", "hier", options=["side=left"])[0]


PAIRS = [([5, 6, 7], [4, 5]), ([8], [6, 7, 9])]


@pytest.mark.parametrize("kind", ["hyper", "manifold_hyper", "manifold_streams", "rezero", "laurel"])
def test_multiplied_out_weights_give_what_each_sub_layer_reads(kind: str) -> None:
    """x_i = sum_j w_ij y_j for each token, with the y_j that the sub-layers really gave, y_0 = h_0."""
    model = off_start(model_of("pre", kind=kind))
    read: list[torch.Tensor] = []
    gave: list[torch.Tensor] = []
    weights: list[dict[str, torch.Tensor]] = []

    def watched(module: SubLayer, given) -> None:
        weights.append(module.residual.weights(given[0]))
        write = type(module.residual).write
        read.append(module.residual.read(given[0])[0])
        module.residual.write = lambda s, y, x, drop: gave.append(y) or write(module.residual, s, y, x, drop)  # type: ignore[method-assign]

    for module in model.encoder.modules():
        if isinstance(module, SubLayer):
            module.register_forward_pre_hook(watched)
    src = pad([PAIRS[0][0]])
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
    assert weights_of(model, [([], [4])])["encoder", "depth_attention", "sources"], "EOS alone"


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


def test_a_row_has_records_a_figure_and_a_summary(own) -> None:
    sets = ["model.norm=pre", "model.encoder.residual={kind: depth_attention}", "model.decoder.connection={kind: dlcl}"]
    own.rows["base"] = resolve(f"{own.file}#base", sets=sets)[0]
    own.finish("base")
    made = layer_weights(own.context("layer-weights", "base", "hop1"))
    assert {(r["side"], r["component"]) for r in made.records} == {("encoder", "depth_attention"), ("decoder", "dlcl")}
    assert len(made.notes) == 1 and "hop1" in made.notes[0]
    assert len(drawn(made).axes) == 4, "two heat maps and their bars"
    assert "hop1: no component of it weighs layers" in refused(layer_weights, own.context("layer-weights", "hop1"))[0]
