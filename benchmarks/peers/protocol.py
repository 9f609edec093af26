"""The worker's side of the protocol: JSON lines over stdin and stdout. Uses only the standard library, to run in every environment.

driver: {job}                            worker: {"ready": true, "version": .., "params": .., ...}
driver: {"go": {options of the row}}     worker: {"seconds": .., "tokens": .., ...}
driver: end of stdin                     worker: exits
"""

import json
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any, Protocol


class Contender(Protocol):
    """A contender, created from a job by a worker script. `about` describes it."""

    about: dict[str, Any]

    def round(self, **options: Any) -> dict[str, Any]: ...


def serve(make: Callable[[dict[str, Any]], Contender]) -> None:
    """Answers the driver until it closes stdin. Output of libraries goes to stderr; an exception prints a traceback and ends the worker."""
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
