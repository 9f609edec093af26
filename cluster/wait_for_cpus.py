"""Waits until the cluster at RAY_ADDRESS has enough CPUs, because a sweep counts them once, at its start, and never uses more.

Exit codes: 0 if the CPUs are available, 1 after the time limit.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from orchestrator.engines.ray import environment


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cpus", type=int)
    parser.add_argument("--seconds", type=float, default=900.0, help="time limit")
    arguments = parser.parse_args()
    results = Path(os.environ.get("NMT_RESULTS", "results"))
    environment.configure(results)
    from orchestrator.engines.ray.cluster import cluster  # Ray reads its variables when it is imported

    deadline = time.monotonic() + arguments.seconds
    while True:
        with cluster(results, several_workers=False) as capacity:
            cpus = capacity.cpus
        if cpus >= arguments.cpus:
            print(f"the cluster has {cpus} CPUs", file=sys.stderr)
            return 0
        if time.monotonic() >= deadline:
            print(f"error: the cluster has {cpus} of {arguments.cpus} CPUs after {arguments.seconds:.0f} s", file=sys.stderr)
            return 1
        time.sleep(min(5.0, max(0.0, deadline - time.monotonic())))


if __name__ == "__main__":
    sys.exit(main())
