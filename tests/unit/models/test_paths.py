"""Every fast path gives the numbers of the slow one, and can be taken out."""

from collections.abc import Iterator

import pytest
import torch

from benchmarks.switches import NAMES, without
from models.paths import PATHS
from models.transformer import build
from orchestrator import cpu
from orchestrator.specs.schema import OptimSpec
from orchestrator.training.objective import Normalizer, Objective
from orchestrator.training.optim import build_optimizer, set_lr

VOCAB = 40


@pytest.fixture
def matmul() -> Iterator[str]:
    """The path taken here; what it was is put back."""
    before = torch.backends.mkldnn.matmul.fp32_precision
    yield cpu.matmul_path()
    torch.backends.mkldnn.matmul.fp32_precision = before


def _losses(matmul: str) -> list[float]:
    torch.backends.mkldnn.matmul.fp32_precision = "bf16" if PATHS.matmul and matmul == "onednn" else "none"
    side = {"num_layers": 2}
    config = {"d_model": 16, "d_ff": 32, "num_heads": 2, "encoder": side, "decoder": side, "dropout": {"embedding": 0.0, "residual": 0.0}}
    model = build(config, VOCAB, VOCAB).train()
    objective, optimizer = Objective(model, 0.1), build_optimizer(model, OptimSpec())
    set_lr(optimizer, 1e-3)
    losses = []
    for seed in range(6):
        g = torch.Generator().manual_seed(seed)
        src, tgt = torch.randint(4, VOCAB, (6, 9), generator=g), torch.randint(4, VOCAB, (6, 8), generator=g)
        for row in range(6):
            src[row, 3 + row :], tgt[row, 8 - row // 2 :] = 0, 0
        tgt_in = torch.cat((torch.full((6, 1), 2), tgt[:, :-1]), 1).masked_fill(tgt == 0, 0)
        optimizer.zero_grad()
        loss, _ = objective(src, tgt_in, tgt, Normalizer(int((src > 0).sum()), int((tgt > 0).sum()), 1.0))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("name", [*NAMES, "all"])
def test_losses_are_the_same_to_rounding_with_a_path_on_and_off(name, matmul):
    fast = _losses(matmul)
    with without(*(NAMES if name == "all" else [name])):
        slow = _losses(matmul)
    assert fast == pytest.approx(slow, rel=1e-5)
    assert fast[0] != fast[-1]
