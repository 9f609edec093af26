"""`nmt-ablate ui` as a process of its own."""

import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple


class Served(NamedTuple):
    """A UI that answers; page: address of its list of runs."""

    url: str
    page: str
    process: subprocess.Popen[str]


@contextmanager
def served(results: Path, port: int) -> Iterator[Served]:
    command = [sys.executable, "-m", "orchestrator", "ui", "--results", str(results), "--port", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        found = re.search(r"(http://[^/]+)/\S+", process.stdout.readline())
        while True:
            with suppress(OSError), urllib.request.urlopen(f"{found[1]}/health", timeout=5):
                break
            time.sleep(0.1)
        yield Served(found[1], found[0], process)
    finally:
        process.terminate()
        process.wait()
