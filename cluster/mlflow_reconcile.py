"""Brings the shared MLflow server up to date with the results: `nmt-ablate reconcile` with the server as its store.

Environment: NMT_RESULTS, MLFLOW_TRACKING_URI, MLFLOW_TRACKING_USERNAME, MLFLOW_TRACKING_PASSWORD. Exit codes: 0, 1 a file cannot be
read or the server cannot be written, 2 a variable is missing. May run as often as one likes; nothing is logged twice.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from orchestrator.cli_common import mirrors
from orchestrator.tracking import reconcile
from orchestrator.tracking_store import redact


def main() -> int:
    missing = [name for name in ("NMT_RESULTS", "MLFLOW_TRACKING_URI") if not os.environ.get(name)]
    if missing:
        print(f"error: {' and '.join(missing)}: not set", file=sys.stderr)
        return 2
    uri = os.environ["MLFLOW_TRACKING_URI"]
    try:
        counts, problems = reconcile(Path(os.environ["NMT_RESULTS"]), uri, mirrors=mirrors())
    except Exception as error:  # a store's errors are of many kinds; a password in an address stays out of the line
        print(f"error: MLflow at {redact(uri)}: {type(error).__name__}: {redact(str(error)).splitlines()[0][:300]}", file=sys.stderr)
        return 1
    print(", ".join(f"{count} {state}" for state, count in counts.items()) or "no sweeps", file=sys.stderr)
    for line in problems:
        print(f"warning: {line}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
