"""What every component must pass, over the registries."""

import pytest
import torch

from models.cache import Cache
from models.dropout import Dropout
from models.paths import PATHS
from models.transformer import build, count_parameters
from tests.unit.models.model_cases import ONCE, PACKED, VOCAB, batch, beams, fresh, full, off_start, quick, tiny, variant

COMPILED = ("layer", "residual", "self_attention", "cross_attention", "bridge", "context")
"""Kinds of components that layers hold or read. The others stand between layers, which are not compiled."""
once = quick(ONCE)
"""Each component under one norm, for what norms have no part in."""


@once
def test_decoding_by_words_pieces_and_beams_that_share_cells_equals_the_full_forward(case):
    model = tiny(case)
    src, tgt = batch()
    with torch.no_grad():
        encoded, cache = model.encode(src), Cache()
        pieces = torch.cat([model.decode(piece, encoded, cache) for piece in tgt.split([1, 1, 2, 1, 1], dim=1)], dim=1)
        for step, whole in beams(model):
            torch.testing.assert_close(step, whole, atol=5e-5, rtol=1e-4)
    assert cache.length == tgt.shape[1]
    torch.testing.assert_close(pieces, full(case), atol=2e-5, rtol=1e-4)


@once
def test_a_position_sees_the_source_and_no_later_position(case):
    model = tiny(case)
    src, tgt = batch()
    changed, other = tgt.clone(), src.clone()
    changed[:, 4:] = (changed[:, 4:] + 3) % (VOCAB - 4) + 4
    other[:, 1] = (other[:, 1] + 5) % (VOCAB - 4) + 4
    with torch.no_grad():
        before, after = full(case), model(src, changed).hidden
        assert (before - model(other, tgt).hidden).abs().amax(dim=(1, 2)).min() > 1e-4
    torch.testing.assert_close(before[:, :4], after[:, :4], atol=1e-6, rtol=0)
    assert (before[:, 4:] - after[:, 4:]).abs().max() > 1e-3


@once
def test_padding_changes_nothing(case):
    model = tiny(case)
    src, tgt = batch()
    with torch.no_grad():
        alone = model(src[:1, :4], tgt[:1, :5]).hidden
        padded = model(torch.nn.functional.pad(src[:1], (0, 3)), torch.nn.functional.pad(tgt[:1, :5], (0, 2))).hidden[:, :5]
    atol = 1e-5 if case[0] == "residual" else 2e-6  # some divide by the size of a state
    torch.testing.assert_close(padded, alone, atol=atol, rtol=1e-4)


@once
def test_every_parameter_gets_a_gradient_and_packed_rows_give_the_same(case, monkeypatch):
    config = variant(*case) | {"dropout": {"embedding": 0.0, "residual": 0.0}}
    model = off_start(build(config, VOCAB, VOCAB + 2, seed=4)).train()
    src, tgt = batch()

    def run(pack):
        monkeypatch.setattr(PATHS, "packing", pack)
        model.zero_grad()
        torch.manual_seed(1)  # dropout of weights, not of positions, stays on
        output = model(src, tgt[:, :-1])
        loss, _ = model.loss(output.real_hidden(), tgt[:, 1:][tgt[:, :-1] != 0], 0.1)
        loss = loss + sum(weight * total / count for _, _, weight, total, count in model.regularize(output))
        loss.backward()
        assert [name for name, p in model.named_parameters() if p.grad is None] == []
        return loss.detach(), {name: p.grad.clone() for name, p in model.named_parameters()}

    (packed, packed_grads), (padded, padded_grads) = run(True), run(False)
    assert [name for name, grad in padded_grads.items() if not torch.isfinite(grad).all() or not grad.abs().sum()] == []
    torch.testing.assert_close(packed, padded, atol=1e-4, rtol=1e-5)
    for name, grad in padded_grads.items():
        torch.testing.assert_close(packed_grads[name], grad, atol=1e-4, rtol=1e-3, msg=lambda m, n=name: f"{n}: {m}")


@once
def test_same_seed_same_model_and_a_new_module_shifts_no_other_initial_value(case):
    """Named streams: what this variant shares with the plain model starts from the same numbers, unless it scales them."""
    one, two = tiny(case), fresh(case)
    for (name, p), q in zip(one.named_parameters(), two.parameters(), strict=True):
        assert torch.equal(p, q), name
    with torch.device("meta"):
        assert count_parameters(build(variant(*case), VOCAB, VOCAB + 2)) == count_parameters(one)
    plain = dict(tiny(("connection", "residual", case[2])).named_parameters())
    scaled = {f"{name}.weight" for name, m in one.named_modules() if isinstance(m, torch.nn.Linear) and hasattr(m, "initial_gain")}
    shared = [(n, p) for n, p in one.named_parameters() if n in plain and plain[n].shape == p.shape and n not in scaled]
    assert shared and all(torch.equal(p, plain[n]) for n, p in shared)


@once
def test_bf16_autocast_stays_close(case):
    model = tiny(case)
    src, tgt = batch()
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        half = model(src, tgt).hidden.float()
    assert torch.isfinite(half).all()
    cosine = torch.nn.functional.cosine_similarity(full(case).flatten(), half.flatten(), dim=0)
    assert cosine > 0.99


@pytest.mark.slow
@pytest.mark.parametrize("case", [case for case in ONCE if case[0] in COMPILED and " " not in case[1]], ids="-".join)
def test_compiled_layers_compute_the_same_without_graph_breaks(case):
    """Each component with its defaults, mostly in two encoder layers, of which the last reads all below where it can, and in one decoder
    layer where no bridge has a state for each. `eager` runs the traced graph as it is.

    Residuals with attention over depth keep their states in one tensor that the backward pass changes: there the graph breaks.
    """

    def run(model):
        for module in model.train().modules():
            if isinstance(module, Dropout):
                module.p = 0.0
        hidden = model(*batch()).hidden
        hidden.square().mean().backward()
        return hidden, {name: p.grad for name, p in model.named_parameters()}

    config = variant(*case)
    if case in PACKED:  # the others have a width for each of four layers
        decoder = 2 if "bridge" in config or case[0] == "cross_attention" else 1
        layers = {"encoder": 3 if case[1] == "multi_layer" else 2, "decoder": decoder}
        config |= {side: config[side] | {"num_layers": number} for side, number in layers.items()}
    torch._dynamo.reset()
    compiled, plain = (off_start(build(config, VOCAB, VOCAB + 2, seed=3)) for _ in range(2))
    options = {"backend": "eager", "fullgraph": not case[1].endswith("depth_attention")}
    if case[0] == "residual" and not options["fullgraph"]:
        # its places share memory, which aot_eager alone refuses as inputs of one graph; with dynamic shapes it takes six times as long
        options = {"backend": "aot_eager", "dynamic": False}
    compiled.compile_layers(**options)
    torch.testing.assert_close(run(compiled), run(plain), atol=1e-5, rtol=1e-4)
