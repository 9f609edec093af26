"""Packed rows and captured graphs on a CUDA device: the numbers of padded batches, in bf16."""

import pytest
import torch
from torch import Tensor

from models.attention import attend_rows
from models.layout import Layout
from orchestrator.data.batching import Batch
from orchestrator.specs.schema import TrainSpec
from orchestrator.training.batches import captured, packed, rounded
from orchestrator.training.graphs import Graphs, both_passes, form_on
from orchestrator.training.objective import Normalizer
from orchestrator.training.runtime import Runtime
from tests.unit.models.model_cases import ONCE, PACKED, batch, variant
from tests.unit.models.test_layout import objective

NORMALIZER = Normalizer(17, 15, 1.0)


def batches() -> tuple[Batch, Batch, Batch]:
    src, tgt = batch()
    given = Batch(src, tgt[:, :-1], tgt[:, 1:])
    return rounded(given), packed(given), captured(given)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("longest", [32, 64, 128, 256])  # the last one by flash attention
def test_attention_of_rows_is_that_of_the_plain_form(causal, longest, cuda):
    lengths = [5, 0, longest, 1, 20]
    starts = torch.tensor([0, *lengths]).cumsum(0).int()
    other = starts if causal else torch.tensor([0, 9, 0, 3, 30, 2]).cumsum(0).int()
    torch.manual_seed(1)
    given = [torch.randn(int(s[-1]), 4, 32) for s in (starts, other, other)]
    found = []
    for device, dtype in (("cpu", torch.float32), (cuda, torch.bfloat16)):
        q, k, v = (x.to(dtype).to(device).detach().requires_grad_() for x in given)
        own, read = (Layout(s.long().to(device), s.to(device), longest) for s in (starts, other))
        z = attend_rows(q, k, v, own, read, 0.0, causal=causal)
        (z.float() * z.float().cos()).sum().backward()
        found.append([x.detach().float().cpu() for x in (z, q.grad, k.grad, v.grad)])
    for want, got in zip(*found, strict=True):  # a gradient of a key is a sum over all queries
        torch.testing.assert_close(got, want, atol=0.02 * float(want.abs().max()), rtol=0.05)


CAPTURED = [case for case in PACKED if "extra_encoder" not in variant(*case) and not case[1].startswith("hierarchical_document")]


@pytest.mark.parametrize("case", CAPTURED, ids="-".join)
def test_loss_and_gradients_are_those_of_a_padded_batch(case, cuda):
    module = objective(case, cuda)
    assert form_on(Runtime(device=cuda), module.model, TrainSpec(max_steps=1, precision="bf16")) is captured
    graphs = Graphs(both_passes(module, cuda, bf16=True), module.parameters(), cuda)
    found = []
    for given in (*batches(), batches()[2], batches()[2]):  # the shape is captured at the second of three
        torch.manual_seed(1)
        module.zero_grad(set_to_none=True)
        log = graphs(given.map(Tensor.pin_memory), NORMALIZER)
        found.append((log["loss"].clone(), {name: p.grad.clone() for name, p in module.named_parameters() if p.grad is not None}))
    assert len(graphs.graphs) == 1
    (want, want_grads), *others, (last, last_grads) = found
    for loss, grads in others:
        torch.testing.assert_close(loss, want, atol=0.02, rtol=0.02)
        assert grads.keys() == want_grads.keys() and all(torch.isfinite(grad).all() for grad in grads.values())
    # a replay is what was captured
    torch.testing.assert_close(last, others[-1][0], atol=1e-3, rtol=1e-3)
    size = max(float(grad.abs().max()) for grad in last_grads.values())
    for name, grad in last_grads.items():
        torch.testing.assert_close(grad, others[1][1][name], atol=0.02 * size, rtol=0.05, msg=lambda m, n=name: f"{n}: {m}")


def test_a_replay_draws_the_masks_of_its_seed(cuda):
    module = objective(ONCE[-1], cuda)
    for part in module.modules():
        if type(part).__name__ == "Dropout":
            part.p = 0.3
    graphs = Graphs(both_passes(module, cuda, bf16=True), module.parameters(), cuda)
    given, losses = batches()[2].map(Tensor.pin_memory), []
    for seed in (7, 7, 8, 7, 8):
        torch.manual_seed(seed)
        module.zero_grad(set_to_none=True)
        losses.append(float(graphs(given, NORMALIZER)["loss"]))
    first, captured, other, again, other_again = losses
    assert (
        first == pytest.approx(captured, rel=1e-3)
        and captured == pytest.approx(again, rel=1e-3)
        and other == pytest.approx(other_again, rel=1e-3)
    )
    assert abs(other - captured) > 1e-2


def test_a_capture_that_fails_says_so_and_leaves_the_device_usable(cuda):
    def run(given: Batch, normalizer: Normalizer) -> dict[str, Tensor]:
        noise = torch.rand(3, device=cuda)
        return {"n": torch.tensor(float(noise.sum().item() > 0), device=cuda)}

    graphs = Graphs(run, [], cuda)
    given = batches()[2].map(Tensor.pin_memory)
    with pytest.warns(UserWarning, match="not captured"):
        assert [float(graphs(given, NORMALIZER)["n"]) for _ in range(3)] == [1.0] * 3
    assert torch.rand(3, device=cuda).sum() > 0
