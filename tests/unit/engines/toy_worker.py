"""A worker process that speaks as `engines.pool_worker` does and does what the id of each task says, without torch."""

from __future__ import annotations

import json
import os
import signal
import time
from multiprocessing.connection import Connection
from pathlib import Path


def main(connection: Connection) -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGINT, signal.SIGTERM))
    while True:
        try:
            task = json.loads(connection.recv_bytes())["task"]
        except EOFError:
            return
        with (Path(task["results"]) / "ran").open("a") as file:
            file.write(f"{task['id']} {os.getpid()}\n")
        if task["id"] == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        failure = "no luck" if task["id"] in ("fails", "breaks") else None
        if task["id"].startswith("rung"):
            connection.send_bytes(json.dumps({"rung": {"rung": 2, "loss": float(task["id"][4:])}}).encode())
            failure = None if json.loads(connection.recv_bytes())["continue"] else "not promoted"
        if task["id"] == "stops":
            (Path(task["results"]) / "stop").touch()
        if task["id"] == "waits":
            time.sleep(0.2)
        connection.send_bytes(json.dumps({"ended": {"failure": failure, "last": task["id"] == "breaks"}}).encode())
