"""Rows on several workers with Ray Train: the same training loop, one process per worker, synchronised by DDP."""

import contextlib
import os
import socket
import time
from typing import Any

import ray
import ray.train
import ray.train.torch
from ray.train.collective import broadcast_from_rank_zero
from ray.train.torch import TorchConfig, TorchTrainer

from orchestrator.engines.ray.preemption import Drained, run_task
from orchestrator.engines.ray.queue import WAIT
from orchestrator.sweeps.task import Task
from orchestrator.training.metrics import RungReporter
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
    """The function that each worker runs: one job of the queue after the other, which rank 0 takes for all."""
    context = ray.train.get_context()
    device = ray.train.torch.get_device()
    runtime = Runtime(context.get_world_rank(), context.get_world_size(), device, claim=config["claim"])
    queue, number = ray.get_actor(config["queue"]), None

    def reached(metrics: dict[str, Any]) -> None:
        if runtime.is_main:
            queue.reached.remote(number, int(metrics["step"]))

    def decide(rung: dict[str, Any]) -> bool:
        return runtime.any(runtime.is_main and ray.get(queue.decide.remote(rung)))

    while True:
        taken = ray.get(queue.take.remote(config["claim"], number, runtime.world_size)) if runtime.is_main else None
        while taken == WAIT:
            time.sleep(0.1)
            taken = ray.get(queue.take.remote(config["claim"], None, runtime.world_size))
        number = broadcast_from_rank_zero(taken)  # in place of torch's, since rank 0 may decode for longer than NCCL waits
        if number is None:
            return
        try:
            for task in map(Task.of, ray.get(queue.job.remote(number))):
                if not run_task(task, runtime, [reached, RungReporter(task.name, decide)]):
                    if runtime.is_main:
                        ray.get(queue.leave.remote(config["claim"]))
                    return
        except Drained:
            if runtime.is_main:
                ray.get(queue.leave.remote(config["claim"], drained=True))
            raise
        except Exception as error:
            ray.get(queue.explain.remote(number, f"{type(error).__name__}: {error}"))
            raise


def fit(queue: str, workers: int | tuple[int, int], resources: dict[str, float], labels: dict[str, str], storage: str, claim: str) -> None:
    """Works off a queue with one Train run inside a Tune trial. Rows resume from our own checkpoints, so each attempt has a new name.

    queue: name of the actor. workers: how many, or the fewest and the most, of which as many start as there is room for. resources: of each
    worker, {"CPU": n} or {"GPU": n}, as decided by the driver (this process may see no GPU).
    labels: a label selector of their nodes.
    """
    use_gpu = "GPU" in resources
    if not isinstance(workers, int):  # Ray counts a node that is being drained; soon after its end it should count anew
        os.environ["RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S"] = "30"
    TorchTrainer(
        worker_loop,
        train_loop_config={"queue": queue, "claim": claim},
        torch_config=NodeTorchConfig(backend="nccl" if use_gpu else "gloo"),
        scaling_config=ray.train.ScalingConfig(
            num_workers=workers, use_gpu=use_gpu, resources_per_worker=resources, label_selector=labels or None
        ),
        run_config=ray.train.RunConfig(
            name=f"{claim}-{os.getpid()}",
            storage_path=storage,
            failure_config=ray.train.FailureConfig(  # the queue counts failures of a job
                max_failures=50, max_preemption_failures=-1, controller_failure_limit=1000, relax_collectives_on_preemption=True
            ),
        ),
    ).fit()
