"""A process of a task that speaks as `engines.pool.main` does and does what the task's id says, without torch."""

import json
import os
import signal
import time
from multiprocessing.connection import Connection
from pathlib import Path


def main(task: str, environment: dict[str, str], connection: Connection) -> None:
    data = json.loads(task)
    id, folder = data["id"], Path(data["results"])
    with (folder / "ran").open("a") as file:
        file.write(f"{id} {len(list(folder.glob('running-*')))}\n")
    (folder / f"running-{os.getpid()}").touch()
    if id == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    failure = "no luck" if id == "fails" else None
    if id.startswith("rung"):
        connection.send_bytes(json.dumps({"rung": {"run": f"{id}:1", "rung": 2, "loss": float(id[4:])}}).encode())
        failure = None if connection.recv() else "not promoted"
    if id == "stops":
        (folder / "stop").touch()
    if id == "waits":
        time.sleep(0.2)
    (folder / f"running-{os.getpid()}").unlink()
    connection.send_bytes(json.dumps({"failure": failure}).encode())
