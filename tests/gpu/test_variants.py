"""Every component on a CUDA device gives what it gives on a CPU."""

import copy

import pytest
import torch

from models.attention import padding_bias
from orchestrator.decoding.beam import beam_search
from orchestrator.specs.schema import DecodeSpec
from orchestrator.training.objective import Normalizer, Objective
from tests.unit.models.model_cases import CASES, batch, fresh
from tests.unit.models.test_layout import objective

every_case = pytest.mark.parametrize("case", CASES, ids="-".join)
INDUCTOR = [
    ("connection", "residual", "pre"), ("connection", "dense", "post"), ("connection", "dlcl", "pre"), ("aggregation", "iterative", "post"),
    ("aggregation", "mlrf-self-attention", "post"), ("self_attention", "multi_layer", "post"), ("extra_encoder", "biarn", "post"),
    ("residual", "hyper", "pre"), ("residual", "depth_attention", "pre"),
]  # fmt: skip
"""Compiled by inductor, which takes half a minute each; test_layouts captures graphs."""


def loss_of(module: Objective, device: torch.device, bf16: bool = False):
    """(loss, gradients) of one batch."""
    src, tgt = (ids.to(device) for ids in batch())
    module.zero_grad(set_to_none=True)
    torch.manual_seed(1)
    with torch.autocast(device.type, torch.bfloat16, enabled=bf16):
        loss, _ = module(src, tgt[:, :-1], tgt[:, 1:], Normalizer(17, 15, 1.0))
    loss.backward()
    return loss.detach().cpu(), {name: p.grad.cpu() for name, p in module.named_parameters()}


def same(got, want, atol=1e-4, rtol=1e-3):
    torch.testing.assert_close(got[0], want[0], atol=1e-4, rtol=1e-4)
    for name, grad in want[1].items():
        torch.testing.assert_close(got[1][name], grad, atol=atol, rtol=rtol, msg=lambda m, n=name: f"{n}: {m}")


@every_case
def test_loss_and_gradients_are_those_of_a_cpu(case, cuda):
    """In fp64 where a component divides by a norm that may be small, and so multiplies rounding."""
    there, here = objective(case, cuda), objective(case, torch.device("cpu"))
    if case[1] == "delta":
        there, here = there.double(), here.double()
    same(loss_of(there, cuda), loss_of(here, torch.device("cpu")))


@every_case
def test_bf16_is_fp32_but_for_rounding(case, cuda):
    (got, grads), (want, _) = loss_of(objective(case, cuda), cuda, bf16=True), loss_of(objective(case, cuda), cuda)
    torch.testing.assert_close(got, want, atol=0.02, rtol=0.02)
    assert all(torch.isfinite(grad).all() for grad in grads.values())


@pytest.mark.parametrize("case", INDUCTOR, ids="-".join)
@pytest.mark.parametrize("bf16", [False, True], ids=["fp32", "bf16"])
def test_compiled_code_computes_the_same(case, bf16, cuda):
    eager, compiled = objective(case, cuda), objective(case, cuda)
    compiled.model.compile_layers()
    same(loss_of(compiled, cuda, bf16), loss_of(eager, cuda, bf16), *((0.02, 0.05) if bf16 else ()))


@every_case
def test_beam_search_finds_what_it_finds_on_a_cpu(case, cuda):
    model = fresh(case)
    src, _ = batch()
    spec = DecodeSpec(beam_size=4, max_ratio=1.0, max_extra=3)
    there = beam_search(copy.deepcopy(model).to(cuda), src.to(cuda), spec)
    here = beam_search(model, src, spec)
    for one, other in zip(there, here, strict=True):
        assert one.score == pytest.approx(other.score, abs=1e-3)


@pytest.mark.parametrize("bf16", [False, True], ids=["fp32", "bf16"])
def test_a_row_of_padding_alone_has_finite_gradients_at_large_scores(bf16, cuda):
    """Prefetched batches have such rows; their gradients were NaN once scores had grown, and the training diverged."""
    torch.manual_seed(1)
    dtype = torch.bfloat16 if bf16 else torch.float32
    q, k, v = (30 * torch.randn(8, 4, 16, 32, device=cuda, dtype=dtype) for _ in range(3))
    for x in (q, k, v):
        x.requires_grad_()
    mask = torch.ones(8, 16, dtype=torch.bool, device=cuda)
    mask[5:] = False
    z = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=padding_bias(mask).to(dtype))
    (z * mask[:, None, :, None]).sum().backward()
    assert all(torch.isfinite(x.grad).all() for x in (q, k, v))
