"""Waits until the cluster of RAY_ADDRESS has so many CPUs: a sweep counts them once, when it starts, and uses no more than it found.

Exit codes: 0 they are there, 1 they are not, in time.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from orchestrator.engines.ray.cluster import cluster


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cpus", type=int)
    parser.add_argument("--seconds", type=float, default=900.0, help="at most so long")
    arguments = parser.parse_args()
    deadline = time.monotonic() + arguments.seconds
    while True:
        with cluster(Path(os.environ.get("NMT_RESULTS", "results"))) as capacity:
            found = capacity.cpus
        if found >= arguments.cpus:
            print(f"the cluster has {found} CPUs", file=sys.stderr)
            return 0
        if time.monotonic() >= deadline:
            print(f"error: the cluster has {found} of {arguments.cpus} CPUs after {arguments.seconds:.0f} s", file=sys.stderr)
            return 1
        time.sleep(min(5.0, max(0.0, deadline - time.monotonic())))


if __name__ == "__main__":
    sys.exit(main())
