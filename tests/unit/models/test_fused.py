"""Fused models equal each model by itself: outputs, regularizers, gradients; for every registered component that is declared fusable."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))

from model_cases import CASES, COMPONENTS, VOCAB, config, variant

from models import build
from models.fused import Fused, unfusable
from models.registry import REGISTRIES
from models.transformer import PAD

SHAPES = [(3, 7, 6), (1, 2, 1), (5, 4, 9)]  # sentences, source, target
DROPOUT = {"embedding": 0.1, "residual": 0.2, "attention": 0.3, "ffn": 0.1}


def reason_of(case: tuple[str, str, str]) -> str | None:
    with torch.device("meta"):
        return unfusable(build(variant(*case), VOCAB, VOCAB))


FUSABLE = [case for case in CASES if reason_of(case) is None]


def batches():
    generator = torch.Generator().manual_seed(11)
    found = []
    for sentences, src, tgt in SHAPES:
        source, target = (torch.randint(4, VOCAB, (sentences, n), generator=generator) for n in (src, tgt))
        for ids in (source, target):
            for i in range(1, sentences):
                ids[i, max(1, ids.shape[1] - i) :] = PAD
        found.append((source, target))
    return found


def loss_of(model, output):
    loss = output.real_hidden().square().sum() + model.logits(output.real_hidden()).logsumexp(-1).sum()
    for _, _, weight, total, count in model.regularize(output):
        loss = loss + weight * total / count
    return loss


def compare(settings, tolerance=1e-9):
    """In double precision, so that nothing but the order of sums may differ."""
    solo = [build(settings, VOCAB, VOCAB, seed).train().double() for seed in (1, 2, 3)]
    fused = Fused([build(settings, VOCAB, VOCAB, seed).train().double() for seed in (1, 2, 3)])
    data = batches()
    expected = []
    for seed, (model, (source, target)) in enumerate(zip(solo, data, strict=True)):
        torch.manual_seed(100 + seed)
        output = model(source, target)
        expected.append(output.hidden.detach())
        loss_of(model, output).backward()
    generators = [torch.Generator().manual_seed(100 + seed) for seed in range(3)]
    outputs = fused([s for s, _ in data], [t for _, t in data], generators)
    sum(loss_of(m, o) for m, o in zip(fused.models, outputs, strict=True)).backward()
    fused.gather_gradients()
    for model, one, output, hidden in zip(fused.models, solo, outputs, expected, strict=True):
        torch.testing.assert_close(output.hidden, hidden, rtol=tolerance, atol=tolerance)
        for (name, p), q in zip(model.named_parameters(), one.parameters(), strict=True):
            scale = float(q.grad.abs().max())
            difference = float((p.grad - q.grad).abs().max())
            assert difference <= tolerance * max(1.0, scale), (name, difference, scale)


@pytest.mark.parametrize("case", FUSABLE, ids=["-".join(case) for case in FUSABLE])
def test_every_fusable_component_equals_its_solo_models(case):
    single = case[0] == "regularizer"  # it computes in single precision
    compare(variant(*case) | {"dropout": DROPOUT}, 1e-5 if single else 1e-9)


@pytest.mark.parametrize("embeddings", ["tied-output", "three-way"])
def test_tied_embeddings_get_all_of_their_gradient(embeddings):
    compare(config("pre") | {"embeddings": embeddings, "dropout": DROPOUT})


@pytest.mark.parametrize("more", [{"positions": "learned", "max_positions": 16}, {"word_dim": 10}, {"word_dim": 10, "output_dim": 12}])
def test_other_embeddings_are_fused(more):
    compare(config("pre") | more | {"dropout": DROPOUT})


def test_a_run_without_a_batch_changes_nothing():
    """One run without a batch: the others are as before, and its own parameters get no gradient but zero."""
    settings = config("pre")
    fused = Fused([build(settings, VOCAB, VOCAB, seed).train() for seed in (1, 2)])
    source, target = batches()[0]
    empty = torch.zeros(0, 1, dtype=torch.int64)
    outputs = fused([source, empty], [target, empty], [torch.Generator().manual_seed(s) for s in (1, 2)])
    loss_of(fused.models[0], outputs[0]).backward()
    fused.gather_gradients()
    assert outputs[1].hidden.shape == (0, 1, 16)
    assert all(float(p.grad.abs().max()) == 0.0 for p in fused.models[1].parameters() if p.grad is not None)
    assert any(float(p.grad.abs().max()) > 0.0 for p in fused.models[0].parameters())


def test_models_share_memory_until_released():
    fused = Fused([build(config("pre"), VOCAB, VOCAB, seed).train() for seed in (1, 2)])
    fresh = build(config("pre"), VOCAB, VOCAB, 2)
    name = "encoder.layers.0.feed_forward.inner.weight"
    torch.testing.assert_close(fused.models[1].get_parameter(name), fresh.get_parameter(name))
    with torch.no_grad():
        fused.models[1].get_parameter(name).fill_(7.0)
        assert float(fused.weights[name][1].min()) == 7.0 and float(fused.weights[name][0].max()) < 7.0
        fused.release()
        fused.models[1].get_parameter(name).fill_(8.0)
    assert float(fused.weights[name][1].detach().max()) == 7.0


@pytest.mark.parametrize("kind, name", COMPONENTS, ids=[f"{k}-{n}" for k, n in COMPONENTS])
def test_what_cannot_be_fused_is_named(kind, name):
    reason, cls = reason_of((kind, name, "pre")), REGISTRIES[kind].get(name.split(" ")[0])
    if extra := variant(kind, name, "pre").get("extra_encoder"):
        assert reason == f"extra_encoder {extra['kind']}: not fused"
    elif not cls.packable:
        assert cls.kind in str(reason)
    elif reason is not None:
        assert reason.endswith(("has no stacked form", ": not fused", "positions meet outside attention"))


def test_the_variants_of_dou_and_wang_can_be_fused():
    names = {name.split(" ")[0] for _, name, _ in FUSABLE}
    assert names >= {
        "dense",
        "hierarchical",
        "linear",
        "iterative",
        "mlrf-avg",
        "mlrf-fnn",
        "mlrf-self-attention",
        "multi_layer",
        "diversity",
    }


def test_a_module_without_a_stacked_form_is_named():
    model = build(config("pre"), VOCAB, VOCAB)
    model.encoder.layers[0].feed_forward.inner = torch.nn.GRU(16, 24)
    assert unfusable(model) == "encoder.layers.0.feed_forward.inner: GRU has no stacked form"
