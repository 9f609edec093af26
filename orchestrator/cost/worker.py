"""`python -m orchestrator.cost.worker`: one probe in a process of its own, so that its peak of memory is its own. JSON in, JSON out."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path


def main() -> None:
    asked = json.load(sys.stdin)
    answer = os.dup(1)
    os.dup2(2, 1)  # what libraries print is not the answer
    from orchestrator.cost.measure import measure
    from orchestrator.specs.schema import RunSpec

    data_dir = None if asked["data_dir"] is None else Path(asked["data_dir"])
    found = measure(RunSpec.model_validate(asked["spec"]), data_dir, Path(asked["cache_dir"]), Path(asked["folder"]))
    with os.fdopen(answer, "w") as out:
        json.dump(found, out)


if __name__ == "__main__":
    main()
