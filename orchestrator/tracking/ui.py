"""The MLflow UI on 127.0.0.1, which ends with this process."""

import contextlib
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from orchestrator import interrupt
from orchestrator.errors import UserError
from orchestrator.tracking.environment import ENVIRONMENT, default_uri, is_server, redact, sqlite_path, with_driver
from orchestrator.tracking.store import VIEW, MlflowStore, artifacts_of
from orchestrator.tracking.sweeps import reconcile

HOST = "127.0.0.1"
START_LIMIT = 120.0
"""Seconds within which the server must answer; it takes about 13 on two cores."""

_WATCHED = """
import os, signal, subprocess, sys
server = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL)
signal.signal(signal.SIGTERM, lambda *_: os.killpg(0, signal.SIGKILL))
sys.stdin.buffer.read()   # ends when the parent does, however it ends
os.killpg(0, signal.SIGKILL)
"""
"""Leader of the server's process group. The server starts workers that would survive a signal to the server alone."""


def runs_page(server: str, experiment: str) -> str:
    """Address of the list of runs. Without `workflowType` the UI shows its GenAI side."""
    return f"{server}/#/experiments/{experiment}/runs?workflowType=machine_learning&viewStateShareKey={VIEW}"


class UiServer(NamedTuple):
    """A running server; page: address of its list of runs."""

    url: str
    page: str
    process: subprocess.Popen[bytes]
    log: Path


@contextlib.contextmanager
def start_ui(results: Path, port: int = 5000, uri: str | None = None) -> Iterator[UiServer]:
    """Context: the UI of `results` on 127.0.0.1, at the first free port from `port`. It ends with this process, even by kill -9.

    If the default store does not exist it is first created from the ledger. UserError if the server does not start.
    """
    results = Path(results).resolve()
    uri = uri or default_uri(results)
    if (path := sqlite_path(uri)) is not None and not path.exists():
        reconcile(results, uri)
    experiment = MlflowStore(results, uri).experiment  # UserError for a database that cannot be used
    port = free_port(port)
    log = results / "mlflow-ui.log"
    hosts = f"localhost,{HOST},localhost:{port},{HOST}:{port}"
    command = [sys.executable, "-m", "mlflow", "server", "--host", HOST, "--port", str(port), "--workers", "1"]
    command += ["--default-artifact-root", artifacts_of(results), "--allowed-hosts", hosts]
    environment = ENVIRONMENT | dict(os.environ) | {"MLFLOW_BACKEND_STORE_URI": with_driver(uri)}  # may hold a password: not an argument
    environment |= {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "PYTHONUNBUFFERED": "1"}
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-c", _WATCHED, *command],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
            cwd=results,
            start_new_session=True,
        )
    url = f"http://{HOST}:{port}"
    server = UiServer(url, runs_page(url, experiment), process, log)
    try:
        _wait(server)
        yield server
    finally:
        assert process.stdin is not None
        process.stdin.close()  # `_WATCHED` then ends the server and its workers
        process.wait()


def serve_ui(results: Path, port: int = 5000, uri: str | None = None, *, log: Callable[[str], None] = print) -> None:
    """Serves the UI until Ctrl-C or SIGTERM and prints its address. For a remote server it only prints the address."""
    if uri is not None and is_server(uri):
        log(f"MLflow: {redact(uri)}")
        return
    try:
        with interrupt.raising(), start_ui(results, port, uri) as server:
            log(f"MLflow: {server.page}  (Ctrl-C ends it)")
            server.process.wait()
            raise UserError(f"the MLflow server ended by itself; its log: {server.log}")
    except KeyboardInterrupt:
        log("MLflow: ended")


def free_port(first: int, tries: int = 100) -> int:
    """The first free port from `first`. UserError if there is none."""
    for port in range(first, min(first + tries, 65536)):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):
                probe.bind((HOST, port))
                return port
    raise UserError(f"no free port from {first} to {first + tries - 1}")


def _wait(server: UiServer) -> None:
    local = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    deadline = time.monotonic() + START_LIMIT
    while time.monotonic() < deadline and server.process.poll() is None:
        with contextlib.suppress(OSError), local.open(f"{server.url}/health", timeout=5) as answer:
            if answer.status == 200:
                return
        time.sleep(0.2)
    last = server.log.read_text(errors="replace").strip().splitlines()[-1:] or ["it said nothing"]
    raise UserError(f"the MLflow server did not start: {redact(last[0])} (log: {server.log})")
