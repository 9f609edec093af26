"""Checks, before a sweep starts on a cluster, that all nodes share the folders."""

import secrets
import time
from collections.abc import Sequence
from pathlib import Path

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from orchestrator.errors import raise_all

TIMEOUT = 120.0
"""Seconds within which a node must answer; on a busy machine it may first have to start a process."""
SETTLE = 5.0
"""Seconds within which a file that the driver wrote must be visible on a shared file system."""


def check_shared(folders: Sequence[Path], readable: Sequence[Path] = ()) -> None:
    """UserError with a line per node and folder if the node sees no new file in one of `folders`, lacks one of `readable`, or is silent."""
    probes = [folder.resolve() / f".probe-{secrets.token_hex(8)}" for folder in folders]
    try:
        for probe in probes:
            probe.parent.mkdir(parents=True, exist_ok=True)
            probe.touch()
        lines = _query_nodes([str(probe) for probe in probes], [str(folder) for folder in readable])
    finally:
        for probe in probes:
            probe.unlink(missing_ok=True)
    raise_all(lines)


def _query_nodes(probes: list[str], readable: list[str]) -> list[str]:
    names = {}
    for node in ray.nodes():
        if node["Alive"]:
            strategy = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
            probe = ray.remote(num_cpus=0, max_retries=0, scheduling_strategy=strategy)(problems)
            names[probe.remote(probes, readable, SETTLE)] = f"node {node['NodeManagerHostname']} ({node['NodeManagerAddress']})"
    done, late = ray.wait(list(names), num_returns=len(names), timeout=TIMEOUT)
    lines = [f"{names[answer]}: does not answer within {TIMEOUT:.0f} s" for answer in late]
    for answer in done:
        try:
            lines += [f"{names[answer]}: {problem}" for problem in ray.get(answer)]
        except Exception as error:
            lines.append(f"{names[answer]}: {' '.join(str(error).split())[-300:]}")
    return sorted(lines)


def problems(probes: Sequence[str], readable: Sequence[str], settle: float) -> list[str]:
    """A line for each folder that is missing, or does not show the probe within `settle` seconds."""
    lines = [f"{folder}: no such folder here; data must be there on every node" for folder in readable if not Path(folder).is_dir()]
    deadline = time.monotonic() + settle
    for probe in map(Path, probes):
        while not probe.is_file() and time.monotonic() < deadline:
            time.sleep(0.2)
        if not probe.is_file():
            lines.append(f"{probe.parent}: does not see what the driver writes there; it must be one shared folder on all nodes (NFS)")
    return lines
