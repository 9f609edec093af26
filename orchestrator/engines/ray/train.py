"""A run on several workers with Ray Train: the same training loop, one process per worker, synchronised by DDP."""

import contextlib
import os
import socket
from typing import Any

import ray
import ray.train
import ray.train.torch
import torch
from ray.train.torch import TorchConfig, TorchTrainer
from ray.tune.integration.ray_train import TuneReportCallback
from torch import nn

from orchestrator.engines.worker import RungReporter, run_task
from orchestrator.sweeps.task import Task
from orchestrator.training.runtime import Runtime


def interface_of(address: str) -> str | None:
    """This machine's network interface with the IP `address`; None if there is none."""
    import psutil  # type: ignore[import-untyped]  # Ray bundles it: importable once Ray is

    for name, entries in psutil.net_if_addrs().items():
        if any(entry.family in (socket.AF_INET, socket.AF_INET6) and entry.address.partition("%")[0] == address for entry in entries):
            return str(name)
    return None


def use_node_interface() -> None:
    """Makes gloo use the interface that connects the Ray nodes, unless the node's environment sets one.

    By default gloo uses the address to which the host name resolves, 127.0.1.1 on Debian, where other machines cannot reach it.
    """
    name = interface_of(ray.util.get_node_ip_address())
    if name is not None:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", name)


class _Backend(TorchConfig().backend_cls):  # type: ignore[misc]
    def on_start(self, worker_group: Any, backend_config: Any) -> None:
        try:
            worker_group.execute(use_node_interface)
            super().on_start(worker_group, backend_config)
        except BaseException:
            # Ray 2.60 does not release the resources of a group that fails here, and the next attempt would wait for them for ever
            with contextlib.suppress(Exception):
                worker_group.get_worker_group_state().shutdown()
            raise


class NodeTorchConfig(TorchConfig):
    """Configures Ray Train's process group to use the interface that connects the nodes."""

    @property
    def backend_cls(self) -> type[Any]:
        return _Backend


def worker_loop(config: dict[str, Any]) -> None:
    """The function that each worker runs."""
    context = ray.train.get_context()
    device = ray.train.torch.get_device()
    runtime = Runtime(context.get_world_rank(), context.get_world_size(), device, _distributed, claim=config["claim"])
    for task in map(Task.of, config["job"]):
        if not run_task(task, runtime, [RungReporter(task.name, ray.train.report)]):
            return


def _distributed(module: nn.Module) -> nn.Module:
    if not torch.distributed.is_initialized() or torch.distributed.get_world_size() == 1:
        return module
    return nn.parallel.DistributedDataParallel(module)


def fit(job: list[dict[str, Any]], workers: int, resources: dict[str, float], storage: str, claim: str) -> None:
    """Runs a job with Ray Train inside a Tune trial. It resumes from our own checkpoints, so each attempt has a new name.

    resources: of each worker, {"CPU": n} or {"GPU": fraction}, as decided by the driver (this process may see no GPU).
    """
    use_gpu = "GPU" in resources
    TorchTrainer(
        worker_loop,
        train_loop_config={"job": job, "claim": claim},
        # gloo for a single worker: NCCL refuses two processes that share a GPU
        torch_config=NodeTorchConfig(backend="nccl" if use_gpu and workers > 1 else "gloo"),
        scaling_config=ray.train.ScalingConfig(num_workers=workers, use_gpu=use_gpu, resources_per_worker=resources),
        run_config=ray.train.RunConfig(
            name=f"{job[0]['keys']['train'][:16]}-{os.getpid()}",
            storage_path=storage,
            callbacks=[TuneReportCallback()],
            failure_config=ray.train.FailureConfig(max_failures=3, controller_failure_limit=1000),
        ),
    ).fit()
