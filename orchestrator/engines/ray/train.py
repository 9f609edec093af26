"""A run on several workers with Ray Train: the same training loop, one process per worker, synchronised by DDP."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import ray.train
import ray.train.torch
import torch
from ray.train.torch import TorchTrainer
from ray.tune.integration.ray_train import TuneReportCallback
from torch import nn

from orchestrator.engines.ray.network import NodeTorchConfig
from orchestrator.engines.worker import run_task
from orchestrator.sweeps.task import Task
from orchestrator.training.runtime import Runtime


class TrainReporter:
    """Sends a rung's metrics to the driver from every worker, since Ray Train's report is a barrier."""

    def __init__(self, name: str) -> None:
        self.name = name

    def on_report(self, metrics: dict[str, Any], checkpoint: Path | None) -> None:
        if "rung" in metrics:
            ray.train.report({"run": self.name} | {k: v for k, v in metrics.items() if isinstance(v, (int, float))})


def worker_loop(config: dict[str, Any]) -> None:
    """The function that each worker runs."""
    context = ray.train.get_context()
    device = ray.train.torch.get_device()
    runtime = Runtime(context.get_world_rank(), context.get_world_size(), device, _distributed, claim=config["claim"])
    tasks = [Task.of(data) for data in config["job"]]
    for task in tasks:
        if not run_task(task, runtime, [TrainReporter(task.name)]):
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
