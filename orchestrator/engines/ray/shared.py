"""Before a sweep starts on a cluster: does every node see the folders that all work in, and the same ones?"""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from orchestrator.errors import UserError

LIMIT = 120.0
"""Seconds in which a node must answer: it may have to start a process first, on a busy machine."""
SETTLE = 5.0
"""Seconds after which a file that the driver wrote must be seen on a shared file system."""


def check_shared(folders: Sequence[Path], readable: Sequence[Path] = ()) -> None:
    """UserError, one line for each node and folder, where a node does not see a file that this process writes into each of `folders`,
    cannot write there itself, or has not the folder `readable`; and for each node that does not answer."""
    token = secrets.token_hex(8)
    probes = [folder.resolve() / f".probe-{token}" for folder in folders]
    try:
        for probe in probes:
            probe.parent.mkdir(parents=True, exist_ok=True)
            probe.write_text(token)
        lines = _ask([str(probe) for probe in probes], [str(folder) for folder in readable], token)
    finally:
        for probe in probes:
            probe.unlink(missing_ok=True)
    if lines:
        raise UserError(*lines)


def _ask(probes: list[str], readable: list[str], token: str) -> list[str]:
    nodes = {}
    for node in ray.nodes():
        if node["Alive"]:
            there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
            options = _look.options(num_cpus=0, max_retries=0, scheduling_strategy=there)
            nodes[options.remote(probes, readable, token)] = f"node {node['NodeManagerHostname']} ({node['NodeManagerAddress']})"
    done, late = ray.wait(list(nodes), num_returns=len(nodes), timeout=LIMIT)
    lines = [f"{nodes[answer]}: does not answer within {LIMIT:.0f} s" for answer in late]
    for answer in done:
        try:
            lines += [f"{nodes[answer]}: {problem}" for problem in ray.get(answer)]
        except Exception as error:
            lines.append(f"{nodes[answer]}: {' '.join(str(error).split())[-300:]}")
    return sorted(lines)


@ray.remote
def _look(probes: list[str], readable: list[str], token: str) -> list[str]:
    """On a node: what is wrong there."""
    return problems(probes, readable, token, SETTLE)


def problems(probes: Sequence[str], readable: Sequence[str], token: str, settle: float) -> list[str]:
    found = [f"{folder}: no such folder here; data must be there on every node" for folder in readable if not Path(folder).is_dir()]
    end = time.monotonic() + settle
    for probe in map(Path, probes):
        while not (seen := _reads(probe, token)) and time.monotonic() < end:
            time.sleep(0.2)
        if not seen:
            found.append(f"{probe.parent}: does not see what the driver writes there; it must be one shared folder on all nodes (NFS)")
            continue
        own = probe.with_name(f"{probe.name}-{secrets.token_hex(4)}")
        try:
            own.write_text(token)
        except OSError as error:
            found.append(f"{probe.parent}: cannot write there: {error.strerror}")
        with contextlib.suppress(OSError):
            own.unlink()
    return found


def _reads(probe: Path, token: str) -> Any:
    with contextlib.suppress(OSError):
        return probe.read_text() == token
    return False
