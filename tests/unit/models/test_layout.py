"""Packed rows as a GPU gets them: the same loss and gradients as of a padded batch, in any shape."""

from collections import Counter

import pytest
import torch

from models.dropout import Dropout
from models.layout import ROWS, shape_of, shaped
from models.transformer import build
from orchestrator.data.batching import Batch
from orchestrator.training.batches import captured, packed, rounded
from orchestrator.training.objective import Normalizer, Objective
from tests.unit.models.model_cases import PACKED, VOCAB, batch, off_start, quick, variant


def ids(lengths: list[int], seed: int = 1) -> torch.Tensor:
    g = torch.Generator().manual_seed(seed)
    rows = [torch.randint(4, VOCAB, (n,), generator=g) for n in lengths]
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)


@pytest.mark.parametrize("rows", [1, 7, 100, 900])
def test_a_shape_holds_its_batch_and_padding_attends_to_padding_alone(rows):
    g = torch.Generator().manual_seed(rows)
    longest = max(2, 3600 // rows)
    src, tgt = (ids(torch.randint(1, longest + 1, (rows,), generator=g).tolist()) for _ in range(2))
    shape = shape_of(src, tgt)
    (src, tgt, again), both = shaped(shape, src, tgt, tgt)
    assert src.shape == tgt.shape == (shape.sentences, shape.longest) and torch.equal(tgt, again)
    for side, layout in zip((src, tgt), both, strict=True):
        assert len(layout.real) == layout.starts[-1] == shape.rows and len(layout.starts) == shape.sentences + 1
        words = side.flatten()[layout.real]
        real = int((words != 0).sum())
        assert torch.equal(words[:real], side[side != 0]) and not words[real:].any()
        assert layout.starts[rows] == real and layout.starts.diff().max() <= shape.longest
    filled = [layout.starts.diff() > 0 for layout in both]
    assert torch.equal(*filled), "a query of padding needs keys"


def test_many_batches_share_few_shapes():
    g = torch.Generator().manual_seed(1)
    shapes = set()
    for length in torch.randint(4, 60, (200,), generator=g).tolist():
        rows = 4000 // length
        sides = [torch.randint(max(1, length - 3), length + 1, (rows,), generator=g).tolist() for _ in range(2)]
        shapes.add(shape_of(*map(ids, sides)))
    assert len(shapes) <= 8 and {shape.rows for shape in shapes} <= {ROWS, 2 * ROWS}


def objective(case, device: str | torch.device = "cpu") -> Objective:
    model = off_start(build(variant(*case), VOCAB, VOCAB + 2, seed=3)).to(device).train()
    for module in model.modules():
        if isinstance(module, Dropout):  # of layer weights too: a GPU draws other masks
            module.p = 0.0
    return Objective(model, 0.1)


def loss_of(module: Objective, given: Batch):
    module.zero_grad(set_to_none=True)
    torch.manual_seed(1)
    loss, log = module(given.src, given.tgt_in, given.tgt_out, Normalizer(17, 15, 1.0), given.layouts)
    loss.backward()
    return loss.detach(), log["nll"], log["sampled"] > 0, {name: p.grad for name, p in module.named_parameters()}


@pytest.mark.slow
@quick(PACKED)
def test_loss_and_gradients_are_those_of_a_padded_batch(case, monkeypatch):
    module = objective(case)
    assert all(module.model.packable.values())
    monkeypatch.setattr("models.layout.ROWS", 64)
    src, tgt = batch()
    given = Batch(src, tgt[:, :-1], tgt[:, 1:])
    want = loss_of(module, rounded(given))
    for form in (packed, captured):
        # `delta` divides by |y|, which may be small: in fp64 its gradients are equal to 1e-15
        torch.testing.assert_close(loss_of(module, form(given)), want, atol=5e-3 if case[1] == "delta" else 2e-5, rtol=2e-4)


@pytest.mark.slow
def test_batches_of_all_lengths_share_two_compiled_graphs():
    """A layer of each side; padded positions: none."""
    torch._dynamo.reset()
    module, plain = (objective(("connection", "residual", "pre")) for _ in range(2))
    module.model.compile_layers(backend="eager", fullgraph=True)
    before = Counter(torch._dynamo.utils.counters["stats"])
    for seed, (rows, longest) in enumerate([(3, 9), (40, 5), (7, 70), (2, 130), (15, 31)]):
        g = torch.Generator().manual_seed(seed)
        src, tgt = (ids(torch.randint(2, longest + 1, (rows,), generator=g).tolist(), seed) for _ in range(2))
        given = packed(Batch(src, tgt[:, :-1], tgt[:, 1:]))
        assert [len(one.real) for one in given.layouts] == [int((side != 0).sum()) for side in (given.src, given.tgt_in)]
        torch.testing.assert_close(loss_of(module, given), loss_of(plain, given), atol=2e-5, rtol=2e-4)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] - before["unique_graphs"] == 2
