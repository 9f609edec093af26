"""Settings of a process that computes."""

import ctypes
import os
import subprocess
import sys

import pytest
import torch

from orchestrator.cpu import CACHES

GROWTH = """
import ctypes, torch
from orchestrator import cpu

class Heap(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()]

libc = ctypes.CDLL(None)
libc.mallinfo2.restype = Heap
cpu.use(1)
weight = torch.zeros(512, 128, dtype=torch.bfloat16)

def used_after(shapes):
    for rows in shapes:
        torch.nn.functional.linear(torch.zeros(rows, 128, dtype=torch.bfloat16), weight)
    return libc.mallinfo2().uordblks

before = used_after(range(300, 300 + 2 * cpu.PRODUCTS))
print(used_after(range(900, 900 + 2 * cpu.PRODUCTS)) - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="the bytes in use are glibc's figure")
@pytest.mark.skipif(not torch.ops.mkldnn._is_mkldnn_bf16_supported(), reason="bf16 products are not oneDNN's on this CPU")
def test_memory_does_not_grow_with_the_number_of_shapes(repository):
    """Packed batches have hundreds of row counts. Without a bound on either of the two caches 256 more take about 70 MB."""
    environment = {name: value for name, value in os.environ.items() if name not in CACHES}
    environment |= {"PYTHONPATH": str(repository), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", GROWTH], env=environment, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout) < 10 * 2**20
