"""Triton's kernels for short sentences, in its interpreter; on a GPU: tests/gpu/test_layouts.py."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import torch
from models.attention import attend_rows
from models.layout import Layout
from models.short_attention import attend_short

def starts(lengths):
    return torch.tensor([0, *lengths]).cumsum(0).int()

def gradients(attend, given, *options, **more):
    given = [x.detach().requires_grad_() for x in given]
    z = attend(*given, *options, **more)
    (z * z.cos()).sum().backward()
    return [z.detach(), *(x.grad for x in given)]

torch.manual_seed(1)
for causal in (False, True):
    for width in (32, 24):
        own = starts([5, 0, 30, 1, 17])
        read = own if causal else starts([9, 0, 3, 40, 2])
        joint = torch.randn(int(own[-1]), 3 * 2 * width)  # queries are a part of a joint map's output
        q = joint[:, : 2 * width].unflatten(-1, (2, width))
        k, v = (torch.randn(int(read[-1]), 2, width) for _ in range(2))
        sides = Layout(None, own, 32), Layout(None, read, 64)
        want = gradients(attend_rows, (q, k, v), *sides, 0.0, causal=causal)
        for one, other in zip(gradients(attend_short, (q, k, v), *sides, 0.0, causal=causal), want, strict=True):
            torch.testing.assert_close(one, other, atol=2e-5, rtol=1e-4)

def dropped(q, v=v):
    torch.manual_seed(5)
    return attend_short(q, k, v, *sides, 0.3, causal=causal)

v.requires_grad_()
z = dropped(q)
z.sum().backward()
torch.testing.assert_close(z.sum(), (v * v.grad).sum(), rtol=1e-3, atol=1e-2)  # linear in v: both passes drop the same weights
torch.manual_seed(6)
assert not torch.allclose(z, attend_short(q, k, v, *sides, 0.3, causal=causal))
ones = torch.ones_like(v)
assert abs(float(dropped(q, ones).mean()) - 1.0) < 0.1, "weights are scaled by what is kept"
step, way = 1e-2, torch.randn_like(q)
start = q.detach().requires_grad_()
z = z.detach()
(grad,) = torch.autograd.grad((dropped(start) * z).sum(), start)
slope = ((dropped(q + step * way) - dropped(q - step * way)) * z).sum() / (2 * step)
torch.testing.assert_close(slope, (grad * way).sum(), rtol=0.02, atol=0.05)
"""


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed (it comes with CUDA builds of torch)")
def test_both_passes_are_those_of_the_plain_form():
    root = Path(__file__).parents[3]
    environment = os.environ | {"TRITON_INTERPRET": "1", "PYTHONPATH": os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
