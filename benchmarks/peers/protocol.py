"""The worker's side of the benchmark: JSON lines over stdin and stdout. Standard library only; it runs in every peer's environment.

driver: {job}                            worker: {"ready": true, "version": .., "params": .., ...}
driver: {"go": {options of the row}}     worker: {"seconds": .., "tokens": .., ...}
driver: end of stdin                     worker: exits
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any, Protocol


class Contender(Protocol):
    """What a worker script makes of a job."""

    about: dict[str, Any]

    def round(self, **options: Any) -> dict[str, Any]: ...


def serve(make: Callable[[dict[str, Any]], Contender]) -> None:
    """Answer the driver until it closes stdin. What libraries print goes to stderr; an exception ends the worker after its traceback."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    try:
        contender = make(json.loads(sys.stdin.readline()))
        answers.write(json.dumps({"ready": True} | contender.about) + "\n")
        for line in sys.stdin:
            answers.write(json.dumps(contender.round(**json.loads(line)["go"])) + "\n")
    except Exception:
        traceback.print_exc()
        sys.exit(1)
