import socket
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture
def dead() -> dict[str, object]:
    """What the lock of a process that is over says."""
    process = subprocess.Popen([sys.executable, "-c", "pass"])
    process.wait()
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return {"held": True, "pid": process.pid, "host": socket.gethostname(), "boot_id": boot, "start_time": 1, "epoch": 3, "token": "x"}
