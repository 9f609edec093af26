"""The nodes of the connected cluster, and the nodes that its autoscaler may add."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import ray
import torch
import yaml

from orchestrator.engines.resources import Capacity, Node
from orchestrator.errors import UserError
from orchestrator.specs.positions import display
from orchestrator.specs.sweep import Resources
from orchestrator.training.runtime import gpu_memory

DRIVER = "driver"
"""Custom resource of Tune drivers: they need no CPU, and on a cluster they stay on the head."""

NODE_TYPES = "NMT_NODE_TYPES"
"""Environment variable: node types that the autoscaler may add, as YAML. Without it, the file in which `ray up` leaves them on the head."""

MOST_NODES = 1000

BOOTSTRAP = Path("~/ray_bootstrap_config.yaml")


def live_capacity(options: Resources) -> Capacity:
    """Returns the capacity of the live nodes, and of nodes that the autoscaler may add. Nodes that `options` exclude may only have drivers.

    GPUs are those Ray reports, since the head may have none; on this machine torch must also see them.
    """
    local = "RAY_ADDRESS" not in os.environ
    live = [(node.get("Resources", {}), node.get("Labels", {})) for node in ray.nodes() if node.get("Alive")]
    return Capacity(
        tuple(_node(*node, options, local) for node in live), addable=() if local else _addable([node for node, _ in live], options)
    )


def _node(resources: Mapping[str, float], labels: Mapping[str, str], options: Resources, local: bool = False) -> Node:
    if not local and not options.selects(resources, labels):
        return Node(0.0, drivers=resources.get(DRIVER, 0.0))
    gpus = resources.get("GPU", 0.0) if not local or torch.cuda.is_available() else 0.0
    whole = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    memory = 0.9 * whole if local else resources.get("memory")  # the rest is left to the system and Ray
    return Node(resources.get("CPU", 0.0), gpus, resources.get(DRIVER, 0.0), memory)


def _addable(live: Sequence[Mapping[str, float]], options: Resources) -> tuple[Node, ...]:
    """Nodes of each type beyond the live ones, which are recognised by their CPUs and GPUs: only some autoscalers label them."""
    workers = [(node.get("CPU", 0.0), node.get("GPU", 0.0)) for node in live if DRIVER not in node]
    types, most = _node_types()
    found: list[Node] = []
    for resources, labels, many in types:
        node = _node(resources, labels, options)
        if node.cpus or node.gpus:
            found += [node] * (many - workers.count((node.cpus, node.gpus)))
    return tuple(found[: max(0, most - len(workers))])


def _node_types() -> tuple[list[tuple[dict[str, float], dict[str, str], int]], int]:
    """(resources, labels, most nodes) of each type that the autoscaler may add, and most nodes of all types. UserError if unreadable."""
    text, path = os.environ.get(NODE_TYPES), BOOTSTRAP.expanduser()
    if text is None and not path.is_file():
        return [], 0
    try:
        config = yaml.safe_load(path.read_text()) if text is None else {"available_node_types": yaml.safe_load(text)}
        head, most = config.get("head_node_type"), int(config.get("max_workers", MOST_NODES))
        kinds = [kind for name, kind in config["available_node_types"].items() if name != head]
        return [(kind.get("resources") or {}, kind.get("labels") or {}, int(kind.get("max_workers", most))) for kind in kinds], most
    except (AttributeError, KeyError, TypeError, ValueError, OSError, yaml.YAMLError):
        example = "{worker: {resources: {CPU: 4}, max_workers: 8}}"
        source = display(path) if text is None else NODE_TYPES
        raise UserError(f"{source}: cannot be read; expected types of nodes such as {example}") from None


def with_gpu_memory(capacity: Capacity, options: Resources) -> Capacity:
    """`capacity` with the memory of its smallest GPU, queried on each type of GPU; None if one does not answer within a minute."""
    live = [node.get("Resources", {}) for node in ray.nodes() if node.get("Alive")]
    wanted = f"accelerator_type:{options.accelerator_type or ''}"
    types = sorted({name for resources in live for name in resources if name.startswith(wanted)})
    query = ray.remote(num_cpus=0, num_gpus=0.01, max_retries=0)(gpu_memory)
    queries = [query.options(resources=resources).remote() for resources in ([{name: 0.001} for name in types] or [{}])]
    ready, late = ray.wait(queries, num_returns=len(queries), timeout=60.0)
    for reference in late:
        ray.cancel(reference, force=True)
    sizes = [memory for memory in ray.get(ready) if memory is not None]
    return replace(capacity, gpu_memory=min(sizes) if sizes and len(sizes) == len(queries) else None)
