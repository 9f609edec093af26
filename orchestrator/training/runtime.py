"""The process of a training: the only one, or one of several workers. The training loop is the same."""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Runtime:
    """Rank, device and claim of a process. claim: the task that it works for; the task's next attempt may take its lock (see `RunLock`)."""

    rank: int = 0
    world_size: int = 1
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    claim: str = ""

    @property
    def is_main(self) -> bool:
        return self.rank == 0

    def sum(self, tensor: Tensor) -> Tensor:
        """Sums a tensor over workers, in place."""
        if self.world_size > 1:
            torch.distributed.all_reduce(tensor)
        return tensor

    def any(self, flag: bool) -> bool:
        """Returns whether the flag is set on any worker."""
        return flag if self.world_size == 1 else bool(self.sum(torch.tensor(float(flag), device=self.device)) > 0)

    def distributed(self, module: nn.Module, *, some_unused: bool) -> nn.Module:
        """Returns the module; several workers synchronise its gradients. some_unused: some parameters may get no gradient."""
        if self.world_size == 1:
            return module
        return nn.parallel.DistributedDataParallel(module, find_unused_parameters=some_unused)

    def no_sync(self, module: nn.Module, off: bool) -> AbstractContextManager[Any]:
        """Context: if `off`, a distributed module does not synchronise gradients."""
        return module.no_sync() if off and hasattr(module, "no_sync") else nullcontext()  # type: ignore[operator]


def best_device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def clock(device: torch.device, *, cpu: bool) -> float:
    """Waits for the device and returns seconds: CPU time of this process if `cpu`, else wall-clock time."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.process_time() if cpu else time.perf_counter()


def gpu_memory() -> int | None:
    """Returns the memory of this machine's first GPU in bytes; None without a GPU."""
    return int(torch.cuda.get_device_properties(0).total_memory) if torch.cuda.is_available() else None


Reporter = Callable[[dict[str, Any]], None]
"""Receives metrics, which always contain `step`. May raise StopTraining."""
