"""Drain notices (`ray drain-node`, a spot machine that ends): a row on such a node saves at once and goes on elsewhere."""

import contextlib
import functools
import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import ray
from ray._private.state import state  # where Ray Train reads the drains too
from ray.exceptions import RayActorError

from orchestrator import interrupt
from orchestrator.errors import UserError
from orchestrator.ledger import object_store
from orchestrator.sweeps.row import run_unless_stopped
from orchestrator.sweeps.task import Task
from orchestrator.training.runtime import Reporter, Runtime

POLL_SECONDS = 2.0

_noticed = threading.Event()


class Drained(RayActorError):
    """A row ends because a node of it is taken away. Tune and Train start it elsewhere without counting a failure."""


def run_task(task: Task, runtime: Runtime, reporters: Sequence[Reporter]) -> bool:
    """`run_unless_stopped`. Raises Drained on every worker, once the main one has saved, if a node drains.

    A trial whose row was stopped succeeds, so that Ray does not retry it; the driver detects the interruption itself.
    `ray.train.get_preemption_info` exists in Train runs alone, learns of a drain up to 5 s later, and costs a synchronisation an update.
    """
    if os.environ.get("RAY_TRAIN_ENABLE_PREEMPTION_WATCHER") != "0":
        _watch()
    if object_store.url(results := Path(task.results)) is None and not results.is_dir():
        raise UserError(f"{results}: no such folder on node {ray.util.get_node_ip_address()}; expected one shared folder on all nodes")
    ended = run_unless_stopped(task, runtime, reporters)
    if not ended and runtime.any(_noticed.is_set()):
        raise Drained(error_msg=f"{task.name}: its node is being drained; it goes on elsewhere from its checkpoint", preempted=True)
    return ended


@functools.cache
def _watch() -> None:
    """Starts the thread of this process that ends the training once the node is drained."""
    threading.Thread(target=_wait_for_notice, args=(ray.get_runtime_context().get_node_id(),), name="drain-watcher", daemon=True).start()


def _wait_for_notice(node: str) -> None:
    while not _noticed.is_set():
        with contextlib.suppress(Exception):  # the head may be away for a while
            if node in state.get_draining_nodes():
                _noticed.set()
                interrupt.request()
        time.sleep(POLL_SECONDS)
